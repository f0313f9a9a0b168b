package sandbox

// Hash tells containers apart that are not alike: two configurations with the
// same hash can share one. It is the SHA-256, in hexadecimal, of [Canonical] of
// what the container is like.
//
// In it is what commands find there: the image, the runtime, the user, limits,
// tmpfs, and the workspace with its access and everything else that is mounted.
// Not in it is what differs from one container to the next and changes nothing
// for commands (names, labels, which private workspace, the warden and how it
// is spoken to), and what is given to each command (environment, PATH).
func (c Config) Hash() (string, error) {
	s, err := newSetup(c)
	if err != nil {
		return "", err
	}
	return s.hash, nil
}

// Canonical is what [Config.Hash] is computed of: one line of JSON.
func (c Config) Canonical() (string, error) {
	s, err := newSetup(c)
	if err != nil {
		return "", err
	}
	return string(s.plan().Canonical()), nil
}
