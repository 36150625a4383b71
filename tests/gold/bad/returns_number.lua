-- a recipe is a table
return 7
