#!lua flags=no-writes
-- What workers announced: {now ms, {name, digest, {worker, heartbeat, ...}}, ...}.
-- KEYS: models. ARGV: what stands before a name in the keys of specs, and of heartbeats.
local time = redis.call('TIME')
local found = {time[1] * 1000 + math.floor(time[2] / 1000)}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local digest = redis.call('HGET', ARGV[1] .. name, 'digest')
  if digest then
    found[#found + 1] = {name, digest, redis.call('HGETALL', ARGV[2] .. name)}
  end
end
return found
