package boundary

// Pins hold on to what is mounted from this machine, by the path in the container, from
// before the container is made until it runs: what was judged is what is in it.
type Pins map[string]*Pin

// Hold adds a mount. The caller lets go of all of them.
func (p Pins) Hold(source, target string) error {
	pin, err := Hold(source)
	if err == nil {
		p[target] = pin
	}
	return err
}

// FD is what is held of what is mounted at target, opened with O_PATH; -1 if nothing is.
func (p Pins) FD(target string) int {
	if pin := p[target]; pin != nil {
		return pin.FD()
	}
	return -1
}

// Verify is for before the container's start.
func (p Pins) Verify() error {
	for _, pin := range p {
		if err := pin.Verify(); err != nil {
			return err
		}
	}
	return nil
}

// VerifyIn is for after it, and before anything of ours runs there. pid is that of the
// container's init; 0 if that has ended.
func (p Pins) VerifyIn(pid int) error {
	for target, pin := range p {
		if pid == 0 {
			break
		}
		if err := pin.VerifyIn(pid, target); err != nil {
			return err
		}
	}
	return nil
}

// Release lets go of them.
func (p Pins) Release() {
	for _, pin := range p {
		_ = pin.Close() // a descriptor that only was looked at
	}
}
