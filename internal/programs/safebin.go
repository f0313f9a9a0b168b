package programs

// A SafeBin says which uses of a program read nothing but standard input and
// write nothing but standard output.
type SafeBin struct {
	MinPositional int `json:"minPositional,omitempty"`
	MaxPositional int `json:"maxPositional,omitempty"`
	// ValueFlags take a value that is not a path.
	ValueFlags []string `json:"allowedValueFlags,omitempty"`
	// Flags take none.
	Flags []string `json:"allowedFlags,omitempty"`
	// DeniedFlags are refused whatever else is allowed.
	DeniedFlags []string `json:"deniedFlags,omitempty"`
}
