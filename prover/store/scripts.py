"""The writes that must look before they write, as Redis scripts: atomic, and harmless when run twice."""

# KEYS: analysis, index, active, events. ARGV: now, id, event, then field, value, ...
CREATE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
for i = 4, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[3], ARGV[1], ARGV[2])
redis.call('XADD', KEYS[4], '*', 'event', 'status', 'data', ARGV[3])
return 1
"""

# KEYS: analysis, events, active.
# ARGV: now, id, new status, end (0/1), event, states it may follow, then field, value, ...
MOVE = """
local status = redis.call('HGET', KEYS[1], 'status')
if not status then return 0 end
local legal = false
for state in string.gmatch(ARGV[6], '%S+') do if state == status then legal = true end end
if not legal then return 0 end
redis.call('HSET', KEYS[1], 'status', ARGV[3], 'updated_at', ARGV[1], 'attempts', 0)
for i = 7, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', 5000, '*', 'event', 'status', 'data', ARGV[5])
if ARGV[4] == '1' then redis.call('ZREM', KEYS[3], ARGV[2]) else redis.call('ZADD', KEYS[3], ARGV[1], ARGV[2]) end
return 1
"""

# KEYS: analysis, outcomes, events, active. ARGV: now, id, outcome key, outcome, event.
RECORD = """
if redis.call('HGET', KEYS[1], 'status') ~= 'verifying' then return 0 end
if redis.call('HSETNX', KEYS[2], ARGV[3], ARGV[4]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'updated_at', ARGV[1], 'attempts', 0)
redis.call('ZADD', KEYS[4], ARGV[1], ARGV[2])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', 5000, '*', 'event', 'outcome', 'data', ARGV[5])
return 1
"""

# KEYS: analysis, active. ARGV: now, round now ('' for none), new round, id.
ADVANCE = """
if redis.call('HGET', KEYS[1], 'status') ~= 'verifying' then return 0 end
local current = redis.call('HGET', KEYS[1], 'round') or ''
if current ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'round', ARGV[3], 'updated_at', ARGV[1], 'attempts', 0)
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[4])
return 1
"""

# KEYS: analysis, active. ARGV: now, id.
KEEP_ALIVE = """
if not redis.call('ZSCORE', KEYS[2], ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[1], 'attempts', 0)
return 1
"""

# KEYS: lock. ARGV: owner, milliseconds. Takes the lock, or holds on to it.
HOLD = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
