-- A list of layers as it is built up. `local layers = import("layers")`.

local M = {}

-- A text as a layer; nothing is added if there is no text. `budget` is in tokens, none if left out.
function M.add(list, name, stability, side, text, budget)
  if text and text ~= "" then
    list[#list + 1] =
      { name = name, stability = stability, side = side, text = text, budget = budget or 0 }
  end
end

-- The rows of the room's log that the window holds.
function M.log(list, log)
  if log.count > 0 then
    list[#list + 1] = {
      name = "log", stability = "log", side = "conversation", rows = { log.first, log.last },
    }
  end
end

-- Each item as a line.
function M.lines(items, line, between)
  local out = {}
  for i = 1, #items do out[i] = line(items[i]) end
  return table.concat(out, between or "\n")
end

return M
