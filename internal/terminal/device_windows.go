package terminal

// device is the console of a program, whatever its streams are.
const device = "CONIN$"
