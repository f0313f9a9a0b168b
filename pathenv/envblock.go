package pathenv

import "bytes"

// parseEnvBlock reads the output of "env -0": variables that each end in a NUL
// byte. A value may hold newlines, and later variables win. Text that is no
// variable, such as the greeting of a profile, and a variable without its NUL are
// skipped.
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
