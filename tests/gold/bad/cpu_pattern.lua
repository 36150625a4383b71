-- the instruction count does not see the inside of string.find
local found = ("a"):rep(40):find((".-"):rep(12) .. "b")
return {}
