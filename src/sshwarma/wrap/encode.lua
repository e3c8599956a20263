-- Encodes Lua values as JSON: deterministic and bounded; no other value leaves Lua.
--
-- Returns a table: encode(value, limit, name) returns JSON of at most `limit` bytes, or raises a
-- message about `name`, or TOO_LONG. `null` is an empty place in a list; object(t) marks an empty
-- table as an object, not a list.

local error, getmetatable, ipairs, next, rawequal, rawget, setmetatable, tonumber, tostring, type =
  error, getmetatable, ipairs, next, rawequal, rawget, setmetatable, tonumber, tostring, type
local mathtype, huge = math.type, math.huge
local find, format, gsub, match, sub =
  string.find, string.format, string.gsub, string.match, string.sub
local concat, sort = table.concat, table.sort
local len8 = utf8.len

local DEPTH = 64 -- levels of nested tables
local NAME = 60 -- bytes of a key in an error message
local TOO_LONG = {}

local null = setmetatable({}, {
  __tostring = function() return "null" end,
  __newindex = function() error("null cannot have fields", 2) end,
  __metatable = false,
})
local OBJECT = { __metatable = "object" }

local function object(value)
  if type(value) ~= "table" then error("object: the argument must be a table", 2) end
  return setmetatable(value, OBJECT)
end

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }
for code = 0, 127 do
  local char = string.char(code)
  if find(char, "%c") and not escapes[char] then escapes[char] = format("\\u%04x", code) end
end

-- A script that cuts text by bytes leaves incomplete UTF-8 sequences: they become U+FFFD.
local function repaired(text)
  local parts, at = {}, 1
  while at <= #text do
    local _, bad = len8(text, at)
    if not bad then
      parts[#parts + 1] = sub(text, at)
      break
    end
    parts[#parts + 1] = sub(text, at, bad - 1) .. "\u{FFFD}"
    at = match(text, "^[\128-\191]*()", bad + 1)
  end
  return concat(parts)
end

local function quoted(text)
  if not find(text, '[%c"\\\128-\255]') then return '"' .. text .. '"' end
  if not len8(text) then text = repaired(text) end
  return '"' .. gsub(text, '[%c"\\]', escapes) .. '"'
end

local function number(value, where)
  if mathtype(value) == "integer" then return format("%d", value) end
  if value ~= value or value == huge or value == -huge then
    error(where() .. " is " .. tostring(value) .. ", which is not a finite number", 0)
  end
  local text = format("%.14g", value)
  if tonumber(text) ~= value then text = format("%.17g", value) end
  return find(text, "[.e]") and text or text .. ".0"
end

-- Returns whether a table is a list, and its string keys in order.
local function shape(value, where)
  local count, top, keys = 0, 0, {}
  for key in next, value do
    if type(key) == "string" then
      keys[#keys + 1] = key
    elseif mathtype(key) == "integer" and key >= 1 then
      count = count + 1
      if key > top then top = key end
    else
      error(where() .. " has a key that is neither a string nor a position: " .. type(key), 0)
    end
  end
  if count > 0 and #keys > 0 then
    error(where() .. " is a list that also has string keys, such as " .. sub(keys[1], 1, NAME), 0)
  end
  if count ~= top then
    error(where() .. " is a list with holes: use null for empty places", 0)
  end
  sort(keys)
  return count > 0 or (#keys == 0 and not rawequal(getmetatable(value), "object")), top, keys
end

local function encode(value, limit, name)
  local parts, n, size, path, active = {}, 0, 0, {}, {}
  local function put(text)
    size = size + #text
    if size > limit then error(TOO_LONG, 0) end
    n = n + 1
    parts[n] = text
  end
  local function where()
    local text = name
    for _, key in ipairs(path) do
      text = text .. (type(key) == "number" and "[" .. key .. "]" or "." .. sub(key, 1, NAME))
    end
    return text
  end
  local write
  local function table_(value, depth)
    if active[value] then error(where() .. " contains itself", 0) end
    if depth > DEPTH then error(where() .. " is nested deeper than " .. DEPTH, 0) end
    active[value] = true
    local list, top, keys = shape(value, where)
    put(list and "[" or "{")
    for i = 1, list and top or #keys do
      local key = list and i or keys[i]
      path[depth] = key
      if i > 1 then put(",") end
      if not list then put(quoted(key) .. ":") end
      write(rawget(value, key), depth + 1)
      path[depth] = nil
    end
    put(list and "]" or "}")
    active[value] = nil
  end
  function write(value, depth)
    local kind = type(value)
    if kind == "string" then
      if #value > limit then error(TOO_LONG, 0) end
      put(quoted(value))
    elseif kind == "number" then
      put(number(value, where))
    elseif kind == "boolean" then
      put(value and "true" or "false")
    elseif kind == "nil" or rawequal(value, null) then
      put("null")
    elseif kind == "table" then
      table_(value, depth)
    else
      error(where() .. " is a " .. kind .. ", which cannot be converted to JSON", 0)
    end
  end
  write(value, 1)
  return concat(parts)
end

return { encode = encode, quoted = quoted, null = null, object = object, TOO_LONG = TOO_LONG }
