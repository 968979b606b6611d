-- What stands before every script of jobs. Its KEYS begin with the queues, then the counters of
-- tokens, each online before bulk, and the job's dedup key.

-- "<server's time, us> <tokens online> <tokens bulk> <jobs online> <jobs bulk>"
local function backlog()
  local time = redis.call('TIME')
  return string.format('%s%06d %s %s %d %d', time[1], time[2],
    redis.call('GET', KEYS[3]) or '0', redis.call('GET', KEYS[4]) or '0',
    redis.call('XLEN', KEYS[1]), redis.call('XLEN', KEYS[2]))
end

-- Take an entry out of its queue, delivered or not, and its tokens off the counter. The entry is
-- the job: whoever removes it answers, and nobody else does.
local function remove(lane, group, id, tokens)
  local queue, counter = KEYS[lane], KEYS[2 + lane]
  redis.call('XACK', queue, group, id)
  if redis.call('XDEL', queue, id) == 0 then
    return false
  end
  -- A counter that somebody deleted, or that was evicted, counts from 0 again, never below, and is
  -- right once the queue is empty.
  local left = 0
  if redis.call('XLEN', queue) > 0 then
    left = math.max(0, (tonumber(redis.call('GET', counter)) or 0) - tonumber(tokens))
  end
  redis.call('SET', counter, string.format('%d', left), 'EX', 86400)
  return true
end

-- Put an answer into the gateway's stream, where there still is one: a dead gateway's must not
-- come back without a time to live.
local function reply(stream, job, chunks, first, last)
  local now = backlog()
  for i = first, last do
    redis.call('XADD', stream, 'NOMKSTREAM', '*',
      'j', job, 'i', i - first, 'n', last - first + 1, 'b', now, 'd', chunks[i])
  end
end
