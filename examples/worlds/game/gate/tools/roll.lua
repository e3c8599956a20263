-- Rolls a die, and remembers your best.
-- @param sides integer=6 Sides of the die
local best = host.state("agent")
local rolled = math.random(args.sides)
local old = best.get("best") or 0
if rolled > old then best.set("best", rolled) end
return caller.name .. " rolls " .. rolled .. " of " .. args.sides .. "; the best was " .. math.max(old, rolled) .. "."
