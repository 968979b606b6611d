#!lua flags=allow-oom
-- Undo what was counted. KEYS: buckets, slots, budgets, in the order of ARGV.
-- ARGV: now; number of buckets, of slots; of each bucket: limit a
-- minute, cost; of each slot: request id; of each budget: cost, and the birth of the count it is of.
local UNIT = 60e6
local buckets, slots = tonumber(ARGV[2]), tonumber(ARGV[3])
for i = 1, buckets do
  local limit, cost = tonumber(ARGV[4 + 2 * (i - 1)]), tonumber(ARGV[5 + 2 * (i - 1)])
  local kept = redis.call('GET', KEYS[i])
  if kept then
    local told, since = string.match(kept, '^(%d+) (%d+)$')
    local debt, at = tonumber(told), math.min(tonumber(since), now)
    debt = math.max(0, debt - limit * (now - at) - cost * UNIT)
    redis.call('SET', KEYS[i], string.format('%.0f %.0f', debt, now), 'KEEPTTL')
  end
end
local a = 4 + 2 * buckets
for i = 1, slots do
  redis.call('ZREM', KEYS[buckets + i], ARGV[a])
  a = a + 1
end
for i = buckets + slots + 1, #KEYS do
  -- Not of a count that began anew, after Redis was emptied: it knows nothing of this cost.
  local kept = redis.call('HMGET', KEYS[i], 'used', 'born')
  if kept[2] == ARGV[a + 1] then
    redis.call('HSET', KEYS[i], 'used',
      string.format('%.0f', math.max(0, tonumber(kept[1]) - tonumber(ARGV[a]))))
  end
  a = a + 2
end
return 1
