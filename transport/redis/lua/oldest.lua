#!lua flags=no-writes
-- Ages of the oldest job in each queue, waiting or running, in ms; 0 where there is none.
local time = redis.call('TIME')
local now, ages = time[1] * 1000 + math.floor(time[2] / 1000), {}
for i, queue in ipairs(KEYS) do
  local first = redis.call('XRANGE', queue, '-', '+', 'COUNT', 1)[1]
  ages[i] = first and math.max(0, now - tonumber(string.match(first[1], '^%d+'))) or 0
end
return ages
