-- The sandbox of a script, and the driver that runs it. Loaded into every new Lua state.
--
-- Returns a table of functions for worker.py: prepare(...) once, then step() until its result is
-- not "call". Both return strings only: a kind, and JSON. No Python object ever enters the state.
-- Every name used here is a local, so that a script's changes to its own tables do not affect this
-- file.

local wire = ...
local encode, null, object, quoted, TOO_LONG =
  wire.encode, wire.null, wire.object, wire.quoted, wire.TOO_LONG
local error, getmetatable, ipairs, load, next, pcall, rawequal, rawget, select, setmetatable =
  error, getmetatable, ipairs, load, next, pcall, rawequal, rawget, select, setmetatable
local rawlen, tonumber, tostring, type, xpcall = rawlen, tonumber, tostring, type, xpcall
local find, format, gsub, match, sub =
  string.find, string.format, string.gsub, string.match, string.sub
local concat, pack, sort, unpack = table.concat, table.pack, table.sort, table.unpack
local close, create, isyieldable, resume, running, status, yield =
  coroutine.close, coroutine.create, coroutine.isyieldable, coroutine.resume, coroutine.running,
  coroutine.status, coroutine.yield
local clock, huge = os.clock, math.huge
local times = { clock = os.clock, date = os.date, difftime = os.difftime, time = os.time }
local getinfo, sethook = debug.getinfo, debug.sethook
local collect = collectgarbage

local COUNT = 1000000 -- instructions between checks of the clock, about 10 ms
local MESSAGE = 2000 -- most bytes of an error message

-- Not accessible to scripts.
local CALL, FAILURE = {}, {}

local run = {} -- sources, limits and counts of this run
local inbox = {} -- where worker.py leaves the answer to a call

-- Coroutines that can yield a call to the server ----------------------------------------------

local function watched(co)
  sethook(co, run.hook, "", COUNT)
  return co
end

local function settle(co, ok, first, ...)
  if ok and rawequal(first, CALL) then
    return settle(co, resume(co, yield(CALL, ...)))
  end
  return ok, first, ...
end

local function unwrapped(co, ok, ...)
  if ok then return ... end
  local problem = ...
  if status(co) == "suspended" or status(co) == "dead" then close(co) end
  error(problem, 0)
end

local function start(f)
  if type(f) ~= "function" then error("a coroutine takes a function", 3) end
  return watched(create(f))
end

local coroutines = {
  close = close, isyieldable = isyieldable, running = running, status = status, yield = yield,
  create = function(f) return start(f) end,
  resume = function(co, ...) return settle(co, resume(co, ...)) end,
  wrap = function(f)
    local co = start(f)
    return function(...) return unwrapped(co, settle(co, resume(co, ...))) end
  end,
}

-- The host of a script -------------------------------------------------------------------------

local function call(name, arguments)
  if type(name) ~= "string" then error("host.call(name, arguments): name must be a string", 2) end
  if arguments ~= nil and type(arguments) ~= "table" then
    error("host.call(name, arguments): arguments must be a table", 2)
  end
  if arguments and rawlen(arguments) > 0 then
    error("host.call(name, arguments): every argument needs a name", 2)
  end
  if not isyieldable() then
    error("host.call cannot wait here: not inside table.sort, string.gsub or a metamethod", 2)
  end
  if run.calls >= run.max_calls then
    error("host.call: at most " .. run.max_calls .. " calls in a run", 2)
  end
  run.calls = run.calls + 1
  if arguments == nil or next(arguments) == nil then arguments = object({}) end
  local ok, body = pcall(encode, { name, arguments }, run.output, "host.call")
  if not ok then
    if rawequal(body, TOO_LONG) then body = "host.call: more than " .. run.output .. " bytes" end
    error(body, 2)
  end
  local fine, answer = yield(CALL, body)
  if not fine then error(answer, 0) end
  return answer
end

-- What a script keeps between its runs: its own, or what it keeps for this room or agent.
local function state(scope)
  local function ask(op, key, given)
    given = given or {}
    given.op, given.scope, given.key = op, scope, key
    return call("host state", given)
  end
  return {
    get = function(key) return ask("get", key) end,
    set = function(key, value) ask("set", key, { value = value }) end,
    add = function(key, by) return ask("add", key, { value = by }) end,
    swap = function(key, old, new) return ask("swap", key, { old = old, value = new }) end,
    all = function() return ask("all") end,
  }
end

local function print_(...)
  local values = pack(...)
  for i = 1, values.n do values[i] = tostring(values[i]) end
  local size = 8
  for i = 1, values.n do size = size + #values[i] + 1 end
  local log = run.log
  if log.size + size <= run.max_log then
    log.size = log.size + size
    log[#log + 1] = concat(values, "\t", 1, values.n)
  elseif not log.full then
    log.full = true
    log[#log + 1] = "(more was printed than the log holds)"
  end
end

local function setmetatable_(value, meta)
  if type(meta) == "table" and rawget(meta, "__gc") ~= nil then
    error("a metatable here cannot have __gc", 2)
  end
  return setmetatable(value, meta)
end

local ranks = { number = 1, string = 2, boolean = 3 }
local function before(a, b)
  local left, right = type(a), type(b)
  if left ~= right then return ranks[left] < ranks[right] end
  if left == "boolean" then return a and not b end
  return a < b
end

local function sorted_pairs(value)
  if type(value) ~= "table" then error("sorted_pairs: the argument must be a table", 2) end
  local keys, plain, kind = {}, true, nil
  for key in next, value do
    local this = type(key)
    if not ranks[this] then error("sorted_pairs cannot order keys of type " .. this, 2) end
    kind = kind or this
    plain = plain and this == kind and this ~= "boolean"
    keys[#keys + 1] = key
  end
  if plain then sort(keys) else sort(keys, before) end
  local i = 0
  return function()
    i = i + 1
    local key = keys[i]
    if key ~= nil then return key, value[key] end
  end
end

-- A parser that runs out of C stack calls the handler of errors, so that its message comes wrapped.
local function parsed(chunk, name, env)
  local made, problem = load(chunk, name, "t", env)
  if made then return made end
  if rawequal(getmetatable(problem), FAILURE) then problem = problem.problem end
  if type(problem) == "string" and find(problem, "C stack overflow", 1, true) then
    problem = "too many brackets, blocks or functions stand in each other"
  end
  return nil, problem
end

local function copied(from, ...)
  local copy = {}
  for key, value in next, from do copy[key] = value end
  for _, key in ipairs({ ... }) do copy[key] = nil end
  return copy
end

local plain = {
  assert = assert, error = error, getmetatable = getmetatable, ipairs = ipairs, next = next,
  pairs = pairs, pcall = pcall, rawequal = rawequal, rawget = rawget, rawlen = rawlen,
  rawset = rawset, select = select, tonumber = tonumber, tostring = tostring, type = type,
  xpcall = xpcall, _VERSION = _VERSION, null = null, object = object, print = print_,
  setmetatable = setmetatable_, sorted_pairs = sorted_pairs,
}

local import

-- Every script has its own globals and libraries: one cannot change another's.
local function environment()
  local env = copied(plain)
  env._G = env
  env.coroutine = copied(coroutines)
  env.math = copied(math, "randomseed")
  env.string = copied(string, "dump")
  env.table = copied(table)
  env.utf8 = copied(utf8)
  env.os = copied(times)
  env.host = { call = call, state = state }
  env.import = function(name) return import(name) end
  env.load = function(chunk, name, _, given)
    if type(chunk) == "function" then
      local parts = {}
      for part in chunk do
        if part == "" then break end
        parts[#parts + 1] = part
      end
      chunk = concat(parts)
    elseif type(chunk) ~= "string" then
      error("load takes a string or a function that returns strings", 2)
    end
    name = "=" .. (type(name) == "string" and gsub(name, "^[=@]", "") or "load")
    return parsed(chunk, name, given == nil and env or given)
  end
  return env
end

local function compiled(name)
  local env = environment()
  local chunk, problem = parsed(run.sources[name], "=" .. name, env)
  if not chunk then error(problem, 0) end
  return chunk, env
end

function import(name)
  if type(name) ~= "string" then error("import takes the name of a script", 3) end
  if not run.sources[name] then error("unknown script " .. format("%q", name), 3) end
  local known = run.imported[name]
  if known == CALL then error("import of " .. name .. " is circular", 3) end
  if known == nil then
    local chunk = compiled(name)
    run.imported[name] = CALL
    known = chunk(name)
    if known == nil then known = true end
    run.imported[name] = known
  end
  return known
end

-- The run ----------------------------------------------------------------------------------------

-- Splits a message into its place and the rest.
local function split(message, script)
  local short = sub(script, 1, 59)
  if sub(message, 1, #short + 1) == short .. ":" then
    local line, rest = match(message, "^(%d+): (.*)$", #short + 2)
    if line then return tonumber(line), rest end
  end
end

local function blamed(message)
  for script in next, run.sources do
    local line, rest = split(message, script)
    if line then return script, line, rest end
  end
end

-- The place of an error: the one in its message, else the innermost line of a script.
local function failure(problem)
  local record = setmetatable({ problem = problem }, FAILURE)
  for level = 2, 200 do
    local info = getinfo(level, "Sl")
    if not info then break end
    local script = sub(info.source, 2)
    if info.currentline > 0 and run.sources[script] then
      record.script, record.line = script, info.currentline
      break
    end
  end
  return record
end

local function printed() return encode(copied(run.log, "size", "full"), huge, "the log") end

local function report(kind, message, script, line)
  message = sub(message, 1, MESSAGE)
  return "error", concat({
    '{"kind":', quoted(kind), ',"message":', quoted(message), ',"script":', quoted(script or ""),
    ',"line":', format("%d", line or 0), ',"log":', printed(), "}",
  })
end

local function out_of_memory()
  run.main, run.imported, run.sources = nil, nil, {}
  collect()
  return report("memory", "")
end

local function failed(problem)
  local script, line
  if rawequal(getmetatable(problem), FAILURE) then
    script, line, problem = problem.script, problem.line, problem.problem
  end
  if rawequal(problem, TOO_LONG) then return report("output", "") end
  if type(problem) == "string" then
    local said_script, said_line, rest = blamed(problem)
    if said_line then script, line, problem = said_script, said_line, rest end
    problem = gsub(problem, "^sandbox:%d+: ", "") -- our own place, after a script's tail call
  else
    local meta = getmetatable(problem)
    local is_plain = type(problem) == "table" and meta == nil
    local fine, text = pcall(is_plain and encode or tostring, problem, MESSAGE, "the error")
    problem = fine and text or "an error that cannot be shown: a " .. type(problem)
  end
  if problem == "not enough memory" then return out_of_memory() end
  if run.late then return report("timeout", "", script, line) end
  local overflow = match(problem, "^stack overflow") or match(problem, "^C stack overflow")
  return report("failed", overflow or problem, script, line)
end

local function concluded(ok, kind, body)
  if not ok then return failed(kind) end
  if rawequal(kind, CALL) then return "call", body end
  return "value", '{"value":' .. kind .. ',"log":' .. printed() .. "}"
end

-- Runs the first script, and then the function it defines: returned, returned in a table, or a
-- global.
local function main(entry, snapshot)
  local name = run.first
  local chunk, env = compiled(name)
  run.imported[name] = CALL
  local given = chunk(name)
  run.imported[name] = given
  local made = given
  if type(given) == "table" then made = rawget(given, entry) end
  if type(made) ~= "function" then made = rawget(env, entry) end
  if type(made) ~= "function" then
    error(name .. " does not define a function " .. entry, 0)
  end
  local value, problem = made(snapshot)
  -- As functions of Lua say that they failed. Other results after the first are of no use to anyone,
  -- and common: string.gsub returns two.
  if value == nil and type(problem) == "string" then error(problem, 0) end
  return encode(value, run.output, "the result")
end

local function guarded(entry, snapshot)
  local ok, result = xpcall(main, failure, entry, snapshot)
  if not ok then error(result, 0) end
  return result
end

local strings = getmetatable("")
strings.__index = copied(string, "dump")
strings.__metatable = false
math.randomseed(1)

return {
  inbox = inbox,
  null = null,
  empty = function() return object({}) end,
  -- names and texts: lists of the same length; seconds: of CPU time; sizes in bytes
  prepare = function(names, texts, entry, snapshot, seconds, output, max_log, max_calls)
    local deadline = clock() + seconds
    run.sources, run.imported, run.first = {}, {}, names[1]
    for i, name in ipairs(names) do run.sources[name] = texts[i] end
    run.output, run.max_log, run.max_calls, run.calls = output, max_log, max_calls, 0
    run.log = { size = 0 }
    run.hook = function()
      if clock() > deadline then
        run.late = true
        error("", 2)
      end
    end
    run.main = watched(create(guarded))
    inbox[1], inbox[2] = entry, snapshot
  end,
  step = function()
    local first, second = inbox[1], inbox[2]
    inbox[1], inbox[2] = nil, nil
    return concluded(resume(run.main, first, second))
  end,
}
