//go:build !linux

package wardenexec

// watcher has nothing to watch.
type watcher struct{}

func useWatcher() (*watcher, error) { return nil, nil }

func (*watcher) leave() {}

// passed is nothing where descriptors cannot be passed.
type passed struct{}

func (passed) close() {}

func (passed) all() []int { return nil }

func closeFDs([]int) {}

func (p *process) newCarrier(c *client, flags uint64) (passed, error) {
	p.setCarrier(newMessages(p, c, flags))
	return passed{}, nil
}

func (*process) removePipes() {}

func (p *process) carrierStarted(*client, answer) error {
	p.carry().(*messages).begin()
	return nil
}

func (p *process) carrierAdopted(c *client, a answer) error {
	m := p.carry().(*messages)
	m.adopted(a)
	p.replayExit(a)
	m.begin()
	return nil
}
