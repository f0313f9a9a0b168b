package sandbox

// SetReached has f called at each step of Steps.
func SetReached(f func(step string)) { reached = f }

// Steps are those at which a crash is told apart by what it leaves.
var Steps = []string{stepIntended, stepCreated, stepStarted, stepUnreferenced, stepReferenced, stepContainerRemoved}

// WorkspaceSteps are those of a private workspace that has a size.
var WorkspaceSteps = []string{stepImaged, stepMounted}

// Freeze has the pool not be filled again.
func (p *Pool) Freeze() {
	p.end()
	p.wg.Wait()
}
