package pathenv

import "bytes"

// parseEnvBlock reads what "env -0" prints: variables that each end in a NUL
// byte. A value may hold newlines, and later variables win. What is no
// variable, as the greeting of a profile, and what has no end is passed over.
func parseEnvBlock(block []byte) map[string]string {
	env := make(map[string]string)
	for {
		entry, rest, ended := bytes.Cut(block, []byte{0})
		if !ended {
			return env
		}
		block = rest
		if name, value, ok := bytes.Cut(entry, []byte("=")); ok && len(name) > 0 {
			env[string(name)] = string(value)
		}
	}
}
