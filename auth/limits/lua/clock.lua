-- Stands before every script. ARGV[1]: now, us since 1970; 0 is the server's clock.
local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
