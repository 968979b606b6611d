-- What stands before every script of jobs. Its KEYS begin with the queues, then the counters of
-- tokens, each online before bulk, and the job's dedup key.

-- The tokens in a lane. What is no number was written by somebody else, and counts as none.
local function counted(lane)
  return tonumber(redis.pcall('GET', KEYS[2 + lane])) or 0
end

-- "<server's time, us> <tokens online> <tokens bulk> <jobs online> <jobs bulk>"
local function backlog()
  local time = redis.call('TIME')
  return string.format('%s%06d %d %d %d %d', time[1], time[2], counted(1), counted(2),
    redis.call('XLEN', KEYS[1]), redis.call('XLEN', KEYS[2]))
end

-- Take an entry out of its queue, delivered or not, and its tokens off the counter. The entry is
-- the job: whoever removes it answers, and nobody else does.
local function remove(lane, group, id, tokens)
  local queue = KEYS[lane]
  redis.call('XACK', queue, group, id)
  local found = redis.call('XDEL', queue, id) == 1
  -- A counter that somebody deleted, or that was evicted, counts from 0 again, never below. One
  -- whose entries vanished is too high: it is right once the queue is empty, whoever emptied it.
  local left = 0
  if redis.call('XLEN', queue) > 0 then
    if not found then
      return false
    end
    left = math.max(0, counted(lane) - tonumber(tokens))
  end
  redis.call('SET', KEYS[2 + lane], string.format('%d', left), 'EX', 86400)
  return found
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
