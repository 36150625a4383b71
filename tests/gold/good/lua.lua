-- What a recipe may do: loops, sorted pairs, functions, string methods, copies of a used table.
local a, b = use "models/tiny_gpt2", use "models/tiny_gpt2"
a.layers = 99
assert(b.layers == 4, "use gives a new copy each time")
local base = { x = { 1, 2, 3 }, y = { p = 1, q = { r = 1 } } }
local c = extend(base, { x = { 9 }, y = { q = { r = 2 } } })
assert(#c.x == 1 and c.y.p == 1 and c.y.q.r == 2 and base.y.q.r == 1, "extend copies deeply")
local order = {}
for k, v in pairs({ z = 1, b = 2, a = 3, [10] = 4, [2] = 5, [-1] = 6 }) do
    order[#order + 1] = k .. "=" .. v
end
assert(table.concat(order, " ") == "-1=6 2=5 10=4 a=3 b=2 z=1", table.concat(order, " "))
assert(("ab"):rep(2):upper() == "ABAB" and ("%d %s"):format(3, "x") == "3 x")
assert(tostring(1.5) == "1.5" and tonumber("0x10") == 16 and select("#", 1, nil) == 2)
local names = {}
for i, v in ipairs({ "x", "y" }) do names[i] = v .. i end
b.layers = math.max(1, 2)
return {
    target = "cpu",
    name = table.concat(names, "_"),
    model = b,
    seq = { max = 64 },
    batch = { micro = 2 },
}
