#!lua flags=allow-oom
-- This gateway lives. Returns how many do. KEYS: gateways, by their last heartbeat.
-- ARGV: now; gateway; us after which a silent one is forgotten.
local keep = tonumber(ARGV[3])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - keep))
-- Of a clock that was ahead, and was set back.
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[2])
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', keep / 1000))
return redis.call('ZCARD', KEYS[1])
