"""The tables an array may be: each module measures the array and proposes tables of one kind."""
