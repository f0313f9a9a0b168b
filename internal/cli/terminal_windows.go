package cli

// terminalDevice is the console of a program, whatever its streams are.
const terminalDevice = "CONIN$"
