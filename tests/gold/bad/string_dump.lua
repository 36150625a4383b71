return { name = ("x").dump(function() end) }
