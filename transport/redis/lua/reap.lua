#!lua flags=allow-oom
-- Remove consumers whose worker is gone and who hold nothing: with entries, they would be lost.
-- Returns how many. KEYS: heartbeats; the queues. ARGV: group; ms of silence; a worker that leaves.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HDEL', KEYS[1], ARGV[3])
local reaped = 0
for i = 2, 3 do
  local consumers = redis.pcall('XINFO', 'CONSUMERS', KEYS[i], ARGV[1])
  for _, fields in ipairs(consumers) do
    local info = {}
    for k = 1, #fields, 2 do
      info[fields[k]] = fields[k + 1]
    end
    local heartbeat = redis.call('HGET', KEYS[1], info.name)
    local silent = info.idle
    local at = heartbeat and tonumber(string.match(heartbeat, '^(%d+) '))
    if at then
      silent = now - at
    elseif heartbeat then
      redis.call('HDEL', KEYS[1], info.name)
    end
    if info.pending == 0 and (silent > tonumber(ARGV[2]) or info.name == ARGV[3]) then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[i], ARGV[1], info.name)
      reaped = reaped + 1
    end
  end
end
return reaped
