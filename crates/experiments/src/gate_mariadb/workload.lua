-- sysbench's own oltp_read_write, with a notebook for every client thread.
--
-- sysbench reports one histogram for all clients. Fairness and the variation of latency are properties of each client,
-- so every thread notes, inside one window of CLOCK_MONOTONIC that is the same for all threads:
--   * the latency of every transaction that committed in the window, counted from the start of its first attempt, so
--     that retries after a deadlock are part of it;
--   * the number of requests (SQL statements) that were answered in the window, whatever the answer was;
--   * the number of attempts that the server refused with an error that a retry mends.
-- The notebook is written when the thread ends, long after the window.
--
-- Settings come through the environment: HEADWORKS_WINDOW_BEGIN_US and HEADWORKS_WINDOW_END_US (µs of
-- CLOCK_MONOTONIC) and HEADWORKS_NOTEBOOKS (a directory). Without them only the workload runs.

require("oltp_read_write")

local ffi = require("ffi")
ffi.cdef [[
typedef struct { long seconds; long nanoseconds; } headworks_time;
int clock_gettime(int clock, headworks_time *time);
]]

local CLOCK_MONOTONIC = 1
local now = ffi.new("headworks_time[1]")

-- µs as a double, which is exact for more than two centuries after boot.
local function clock_us()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, now)
   return tonumber(now[0].seconds) * 1e6 + tonumber(now[0].nanoseconds) / 1e3
end

local window_begin_us = tonumber(os.getenv("HEADWORKS_WINDOW_BEGIN_US") or "0")
local window_end_us = tonumber(os.getenv("HEADWORKS_WINDOW_END_US") or "0")
local notebooks = os.getenv("HEADWORKS_NOTEBOOKS")

local latency_us = ffi.new("uint32_t[?]", 4096)
local capacity = 4096
local transactions = 0
local requests = 0
local retries = 0
local ready_us = 0
local attempt_begin_us = nil

local function inside(time_us)
   return time_us >= window_begin_us and time_us < window_end_us
end

local function note_latency(us)
   if transactions == capacity then
      local larger = ffi.new("uint32_t[?]", capacity * 2)
      ffi.copy(larger, latency_us, capacity * 4)
      latency_us, capacity = larger, capacity * 2
   end
   latency_us[transactions] = us
   transactions = transactions + 1
end

-- A statement of sysbench is foreign data whose methods cannot be changed, so a table stands in front of it.
local function counted(statement)
   return {
      execute = function()
         local result = statement:execute()
         if inside(clock_us()) then
            requests = requests + 1
         end
         return result
      end,
      bind_create = function(_, ...) return statement:bind_create(...) end,
      bind_param = function(_, ...) return statement:bind_param(...) end,
      close = function() return statement:close() end,
   }
end

local plain_prepare_statements = prepare_statements
function prepare_statements()
   plain_prepare_statements()
   for key, entry in pairs(stmt) do
      if type(entry) == "table" then
         for name, statement in pairs(entry) do
            entry[name] = counted(statement)
         end
      else
         stmt[key] = counted(entry)
      end
   end
end

local plain_event = event
function event(...)
   if attempt_begin_us == nil then
      attempt_begin_us = clock_us()
   end
   local result = plain_event(...)
   local end_us = clock_us()
   if inside(end_us) then
      note_latency(end_us - attempt_begin_us)
   end
   attempt_begin_us = nil
   return result
end

-- Called between a failed attempt and the next. The statement that failed was answered, too.
local plain_before_restart_event = sysbench.hooks.before_restart_event
function sysbench.hooks.before_restart_event(description)
   if inside(clock_us()) then
      requests = requests + 1
      retries = retries + 1
   end
   if plain_before_restart_event then
      plain_before_restart_event(description)
   end
end

local plain_thread_init = thread_init
function thread_init(...)
   plain_thread_init(...)
   ready_us = clock_us()
end

local plain_thread_done = thread_done
function thread_done(...)
   if notebooks then
      local lines = {}
      for i = 0, transactions - 1 do
         lines[i + 1] = tostring(latency_us[i])
      end
      local file = assert(io.open(string.format("%s/user-%d", notebooks, sysbench.tid), "w"))
      file:write(string.format("ready_us %.0f\nrequests %d\nretries %d\ntransactions %d\n",
                               ready_us, requests, retries, transactions))
      file:write("latencies_us ", table.concat(lines, " "), "\n")
      file:close()
   end
   plain_thread_done(...)
end
