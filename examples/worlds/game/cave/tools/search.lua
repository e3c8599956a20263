-- Looks for the treasure behind the bones: one of three finds it, once.
local room, me = host.state("room"), host.state("agent")
local finder = room.get("finder")
if finder then return "The bones lie as " .. finder .. " has left them." end
if math.random(3) > 1 then return "Only bones." end
if not room.swap("finder", nil, caller.name) then return "Somebody was quicker." end
me.add("score", 10)
return caller.name .. " finds a cup of gold. Ten points."
