-- Texts of the default layers, from a snapshot. `local parts = import("parts")`.

local lines = import("layers").lines

local M = {}

function M.persona(s)
  local about = s.agent.description:gsub("%.$", "")
  if about == s.agent.name then about = "" end
  local text = "You are " .. s.agent.name .. "." .. (about ~= "" and " You run on " .. about .. "." or "")
  if s.agent.prompt ~= "" then text = text .. "\n\n" .. s.agent.prompt end
  return text
end

-- Skills, prompts and other data equipped on the room or the model, the room's first.
function M.equipped(s)
  return lines(s.equipped, function(thing)
    return "<" .. thing.name .. ">\n" .. thing.content .. "\n</" .. thing.name .. ">"
  end)
end

function M.room(s)
  local r = s.room
  local out = { "You are in the room " .. r.name .. "." }
  if r.description ~= "" then out[#out + 1] = r.description end
  if r.vibe ~= "" then out[#out + 1] = "Its vibe: " .. r.vibe end
  if #r.exits > 0 then
    out[#out + 1] = "Exits: "
      .. lines(r.exits, function(e) return e.direction .. " to " .. e.to end, ", ")
  end
  if #r.floor > 0 then
    out[#out + 1] = "In it: "
      .. lines(r.floor, function(t) return t.name .. " (" .. t.kind .. ")" end, ", ")
  end
  return table.concat(out, "\n")
end

-- One line for each namespace that has tools and is not equipped.
function M.namespaces(s)
  if #s.namespaces == 0 then return nil end
  return "Namespaces whose tools are not equipped here:\n"
    .. lines(s.namespaces, function(n)
      return "- " .. n.name .. (n.description ~= "" and ": " .. n.description or "")
    end)
end

function M.state(s)
  if s.state == "" then return nil end
  return "Your notes about this room:\n" .. s.state
end

function M.now(s)
  return "Here now: " .. table.concat(s.here, ", ") .. ". It is " .. s.clock .. ".\n"
    .. s.asker .. " asks you:\n" .. s.question
end

return M
