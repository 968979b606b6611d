#!lua
-- Add a job to its queue, once. Returns {entry id, or '' where the queue is full; backlog}.
-- ARGV: lane; 'first' or 'again'; most jobs; dedup ms; the entry's fields, its tokens first.
local lane, again = tonumber(ARGV[1]), ARGV[2] == 'again'
local queue = KEYS[lane]
local known = redis.call('GET', KEYS[5])
-- Submitted again because its answer may be lost: only an entry that is still there will give one.
if known and (not again or #redis.call('XRANGE', queue, known, known) == 1) then
  return {known, backlog()}
end
if not again and redis.call('XLEN', queue) >= tonumber(ARGV[3]) then
  return {'', backlog()}
end
local id = redis.call('XADD', queue, '*', unpack(ARGV, 5))
redis.call('SET', KEYS[5], id, 'PX', ARGV[4])
local counter = KEYS[2 + lane]
local tokens = redis.pcall('INCRBY', counter, ARGV[6])
if type(tokens) == 'table' then  -- somebody else's: it counts from 0 again
  redis.call('SET', counter, ARGV[6])
end
if type(tokens) == 'table' or tokens == tonumber(ARGV[6]) then
  -- It was empty, and may be new: heartbeats renew this, but there may be no worker left.
  redis.call('EXPIRE', queue, 86400, 'NX')
  redis.call('EXPIRE', counter, 86400, 'NX')
end
return {id, backlog()}
