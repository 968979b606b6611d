#!lua
-- Count a demand whole, or nothing of it. KEYS: buckets, slots, budgets, in the order of ARGV.
-- ARGV: now; number of buckets, of slots;
--   of each bucket: limit a minute, burst, cost;
--   of each slot: limit, request id, its time to live, us;
--   of each budget: limit, cost, start and end of its period, us, and what the database says was
--   used: tokens, '?' where it does not know, '' where it has not been asked.
-- Returns {'period', now} where a budget's period is not the clock's; {'seed', now, indices…} of
-- the budgets that the database must be asked of first; else
-- {'counted', now, index of what refuses or 0, used, wait us, debt of each bucket…, used and birth
-- of each budget…}. All but the last count nothing.
--
-- A bucket is "debt at": what was spent and has not flowed off since `at`, in units · 60e6, so that
-- `limit` of it flows off each us: whole numbers, which a double holds exactly to 2^53, a burst of
-- 150 million tokens.
local UNIT, LEASE_US, RESEED_US, GUESS_US, MARGIN_S = 60e6, 900e6, 60e6, 1e6, 86400
local buckets, slots = tonumber(ARGV[2]), tonumber(ARGV[3])
local budgets = #KEYS - buckets - slots
local first_slot, first_budget = 4 + 3 * buckets, 4 + 3 * buckets + 3 * slots

-- Of budgets: in the clock's period, and seeded.
local unknown = {'seed', now}
for i = 1, budgets do
  local a = first_budget + 5 * (i - 1)
  local start, ends, seed = tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3]), ARGV[a + 4]
  if now < start or now >= ends then
    return {'period', now}
  end
  local key = KEYS[buckets + slots + i]
  local kept = redis.call('HMGET', key, 'used', 'again')
  local used, again = tonumber(kept[1]), tonumber(kept[2])
  -- The clock may have been set back since.
  local due = again and (now >= again or again > now + RESEED_US)
  if seed == '' and (not used or due) then
    unknown[#unknown + 1] = i
    if due and again > 0 then -- one asks; of what is known to be too low (ask_again) everybody
      redis.call('HSET', key, 'again', string.format('%.0f', now + RESEED_US))
    end
  elseif seed ~= '' and (not used or again) then
    if not used then
      redis.call('HSET', key, 'used', 0, 'born', string.format('%.0f', now))
      redis.call('EXPIRE', key, math.ceil((ends - now) / 1e6) + MARGIN_S)
    end
    -- Asked again whatever it said: a gateway that does not reach us counts by the database alone.
    redis.call('HSET', key, 'again', string.format('%.0f', now + RESEED_US))
    if seed ~= '?' then
      -- What was counted meanwhile is in the seed, too, as far as it was written down.
      redis.call('HSET', key, 'used', string.format('%.0f', math.max(used or 0, tonumber(seed))))
    end
  end
end
if #unknown > 2 then
  return unknown
end

-- Of several that refuse, one that can never fit is told, else the one to wait longest for.
local NEVER = 1e17
local index, refusing, wait, refused_used = 0, 0, 0, 0
local function refuse(used, of_wait)
  if of_wait > wait then -- which is never 0
    refusing, wait, refused_used = index, of_wait, used
  end
end

local debts = {}
for i = 1, buckets do
  index = index + 1
  local a = 4 + 3 * (i - 1)
  local limit, burst, cost = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2])
  local debt, at = 0, now
  local kept = redis.call('GET', KEYS[i])
  if kept then
    local told, since = string.match(kept, '^(%d+) (%d+)$')
    debt, at = tonumber(told), tonumber(since)
  end
  if at > now then
    -- The clock was set back. Whatever is answered, debt flows off from now on.
    at = now
    redis.call('SET', KEYS[i], string.format('%.0f %.0f', debt, at), 'KEEPTTL')
  end
  debt = math.max(0, math.min(debt, burst * UNIT) - limit * (now - at)) -- the burst may be new
  local over = debt + cost * UNIT - burst * UNIT
  if cost > 0 and over > 0 then
    refuse(math.ceil(debt / UNIT), cost > burst and NEVER or math.ceil(over / limit))
  end
  debts[i] = debt
end

for i = 1, slots do
  index = index + 1
  local a, key = first_slot + 3 * (i - 1), KEYS[buckets + i]
  redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
  -- Of a clock that was ahead, and was set back: no lease is this long.
  local longest = string.format('%.0f', now + LEASE_US)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. longest, '+inf')) do
    redis.call('ZADD', key, longest, member)
  end
  local held = redis.call('ZCARD', key)
  if held >= tonumber(ARGV[a]) and not redis.call('ZSCORE', key, ARGV[a + 1]) then
    local soonest = tonumber(redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
    refuse(held, math.min(soonest - now, GUESS_US))
  end
end

local uses = {}
for i = 1, budgets do
  index = index + 1
  local a, key = first_budget + 5 * (i - 1), KEYS[buckets + slots + i]
  local limit, cost, ends = tonumber(ARGV[a]), tonumber(ARGV[a + 1]), tonumber(ARGV[a + 3])
  local kept = redis.call('HMGET', key, 'used', 'born')
  local used = tonumber(kept[1])
  if used + math.max(1, cost) > limit then
    refuse(used, cost > limit and NEVER or ends - now)
  end
  uses[2 * i - 1], uses[2 * i] = used, kept[2]
end

if refusing == 0 then
  for i = 1, buckets do
    local a = 4 + 3 * (i - 1)
    local limit, cost = tonumber(ARGV[a]), tonumber(ARGV[a + 2])
    if cost > 0 then
      debts[i] = debts[i] + cost * UNIT
      -- A minute longer than it takes to flow off: a clock set back may need it.
      redis.call('SET', KEYS[i], string.format('%.0f %.0f', debts[i], now),
        'PX', string.format('%.0f', math.ceil(debts[i] / limit / 1000) + 60000))
    end
  end
  for i = 1, slots do
    local a, key = first_slot + 3 * (i - 1), KEYS[buckets + i]
    local ends = now + math.min(tonumber(ARGV[a + 2]), LEASE_US)
    redis.call('ZADD', key, string.format('%.0f', ends), ARGV[a + 1])
    redis.call('PEXPIRE', key, LEASE_US / 1000)
  end
  for i = 1, budgets do
    local cost = tonumber(ARGV[first_budget + 5 * (i - 1) + 1])
    if cost > 0 then
      uses[2 * i - 1] = redis.call('HINCRBY', KEYS[buckets + slots + i], 'used', cost)
    end
  end
end
local answer = {'counted', now, refusing, refused_used, wait}
for i = 1, buckets do
  answer[5 + i] = debts[i]
end
for i = 1, 2 * budgets do
  answer[5 + buckets + i] = uses[i]
end
return answer
