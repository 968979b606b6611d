#!lua flags=allow-oom
-- A worker's heartbeat for one model. Returns {1 where its ModelSpec, 1 where its tokenizer is
-- missing}.
-- KEYS: models; spec; tokenizer; heartbeats; the queues; the counters.
-- ARGV: the model's name in keys; worker; tokens/s or ''; digest of the spec; seconds to keep all
-- that; ms after which a silent worker is forgotten.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local heartbeats = redis.call('HGETALL', KEYS[4])
for i = 1, #heartbeats, 2 do
  local at = tonumber(string.match(heartbeats[i + 1], '^(%d+) '))
  if not at or now - at > tonumber(ARGV[6]) then
    redis.call('HDEL', KEYS[4], heartbeats[i])
  end
end
redis.call('HSET', KEYS[4], ARGV[2], string.format('%d %s', now, ARGV[3]))
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[5]) * 1000)
for i = 5, 6 do
  if redis.pcall('XLEN', KEYS[i]) == 0 then  -- somebody may have deleted it with its entries
    redis.call('SET', KEYS[i + 2], '0', 'XX')
  end
end
local kept = {}
for i, key in ipairs(KEYS) do
  kept[i] = redis.call('EXPIRE', key, ARGV[5])
end
local same = redis.call('HGET', KEYS[2], 'digest') == ARGV[4]
return {same and 0 or 1, 1 - kept[3]}
