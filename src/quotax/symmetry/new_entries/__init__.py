"""The general entry of a transformed parameter: what every way of stating an action becomes, and what reads it."""
