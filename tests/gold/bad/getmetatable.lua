local index = getmetatable("").__index
return {}
