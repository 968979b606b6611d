#!lua flags=allow-oom
-- Deliver whole jobs, as many as fit: online first, bulk when it had no turn for too long, and
-- bulk with what room is left. Returns {now ms, 1 where bulk goes first, online entries, bulk's}.
-- KEYS: the queues. ARGV: group; consumer; room, tokens; 1 where the first job always fits; when
-- bulk last had a turn, ms; how long it may be without one, ms.
local group, room = ARGV[1], tonumber(ARGV[3])
local always, served, age = ARGV[4] == '1', tonumber(ARGV[5]), tonumber(ARGV[6])
local MOST = 512  -- jobs in one answer, however small, or late
local taken = 0
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function last_delivered(queue)
  local groups = redis.pcall('XINFO', 'GROUPS', queue)
  for _, fields in ipairs(groups) do
    local info = {}
    for i = 1, #fields, 2 do
      info[fields[i]] = fields[i + 1]
    end
    if info.name == group then
      return info['last-delivered-id']
    end
  end
end

-- Entries are looked at before they are delivered: a job that does not fit is for others to take.
local function peek(lane)
  if lane.next > #lane.entries and not lane.ended then
    local found = redis.call('XRANGE', lane.queue, '(' .. lane.after, '+', 'COUNT', lane.step)
    lane.entries, lane.next, lane.ended = found, 1, #found < lane.step
    lane.step = lane.step * 2
    if #found > 0 then
      lane.after = found[#found][1]
    end
  end
  return lane.entries[lane.next]
end

local function submitted(entry)
  return tonumber(string.match(entry[1], '^%d+'))
end

-- True: taken. False: no room. Nil: there is none.
local function take(lane)
  local entry = peek(lane)
  if not entry then
    return nil
  end
  local tokens, budget = tonumber(entry[2][2]) or 0, tonumber(entry[2][4]) or 0
  if submitted(entry) + budget <= now then
    tokens = 0  -- past its deadline: it will not run
  end
  if taken == MOST or tokens > room and not always then
    return false
  end
  if tokens > 0 then
    always = false
  end
  room, taken = room - tokens, taken + 1
  lane.next, lane.count = lane.next + 1, lane.count + 1
  return true
end

local lanes = {}
for i = 1, 2 do
  local after = last_delivered(KEYS[i])
  if not after then
    return redis.error_reply('NOGROUP ' .. KEYS[i])
  end
  lanes[i] = {queue = KEYS[i], after = after, entries = {}, next = 1, step = 1, count = 0}
end
local online, bulk = lanes[1], lanes[2]

local oldest, bulk_first = peek(bulk), 0
if oldest and now - math.max(submitted(oldest), served) > age and take(bulk) then
  bulk_first = 1
end
local more
repeat more = take(online) until not more
if more == nil then
  repeat more = take(bulk) until not more
end

local answer = {now, bulk_first}
for i, lane in ipairs(lanes) do
  local read = lane.count > 0 and redis.call(
    'XREADGROUP', 'GROUP', group, ARGV[2], 'COUNT', lane.count, 'STREAMS', lane.queue, '>')
  answer[2 + i] = read and read[1][2] or {}
end
return answer
