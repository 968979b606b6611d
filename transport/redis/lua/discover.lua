#!lua flags=no-writes
-- What workers announced: {now ms, {name, digest, {worker, heartbeat, ...}}, ...}.
-- KEYS: models. ARGV: what stands before a name in the keys of specs, and of heartbeats.
local time = redis.call('TIME')
local found = {time[1] * 1000 + math.floor(time[2] / 1000)}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  -- A key of another kind hides its own model, and no other.
  local digest = redis.pcall('HGET', ARGV[1] .. name, 'digest')
  local heartbeats = redis.pcall('HGETALL', ARGV[2] .. name)
  if type(digest) == 'string' and not heartbeats.err then
    found[#found + 1] = {name, digest, heartbeats}
  end
end
return found
