-- What a model is told, layer by layer. `wrap(s)` is called for every request with a snapshot `s`
-- and returns an array of layers:
--
--   { name =, stability =, side =, text =, budget = }     a text
--   { name = "log", stability = "log", side = "conversation", rows = { first, last } }
--
-- stability: release, model, room, epoch, log, turn, volatile; the composer sorts by it.
-- side: "system" or "conversation". budget: tokens, 0 for none.
--
-- A room or an agent that has a data thing named `wrap.lua` equipped uses that one instead.

local layers

local function add(name, stability, side, text, budget)
  if text and text ~= "" then
    layers[#layers + 1] =
      { name = name, stability = stability, side = side, text = text, budget = budget or 0 }
  end
end

local function lines(items, line)
  local out = {}
  for i = 1, #items do out[i] = line(items[i]) end
  return table.concat(out, "\n")
end

local function persona(s)
  local text = "You are " .. s.agent.name .. "."
  if s.agent.description ~= "" then text = text .. " " .. s.agent.description end
  if s.agent.prompt ~= "" then text = text .. "\n\n" .. s.agent.prompt end
  return text
end

local function room(s)
  local r = s.room
  local out = { "You are in the room " .. r.name .. "." }
  if r.description ~= "" then out[#out + 1] = r.description end
  if r.vibe ~= "" then out[#out + 1] = "Its vibe: " .. r.vibe end
  if #r.exits > 0 then
    out[#out + 1] = "Exits: " .. lines(r.exits, function(e) return e.direction .. " to " .. e.to end):gsub("\n", ", ")
  end
  if #r.floor > 0 then
    out[#out + 1] = "In it: " .. lines(r.floor, function(t) return t.name .. " (" .. t.kind .. ")" end):gsub("\n", ", ")
  end
  return table.concat(out, "\n")
end

local function equipped(s)
  return lines(s.equipped, function(thing)
    return "<" .. thing.name .. ">\n" .. thing.content .. "\n</" .. thing.name .. ">"
  end)
end

local function now(s)
  return "Here now: " .. table.concat(s.here, ", ") .. ". It is " .. s.clock .. ".\n"
    .. s.asker .. " asks you:\n" .. s.question
end

function wrap(s)
  layers = {}
  add("charter", "release", "system", s.charter)
  add("you", "model", "system", persona(s), 2000)
  add("equipped", "room", "system", equipped(s), 6000)
  add("room", "room", "system", room(s), 2000)
  if s.log.count > 0 then
    layers[#layers + 1] = {
      name = "log", stability = "log", side = "conversation",
      rows = { s.log.first, s.log.last },
    }
  end
  add("now", "volatile", "conversation", now(s), 4000)
  return layers
end
