package images

import "sync"

// Phase is a stage of getting an image.
type Phase string

const (
	PhaseWait    Phase = "wait"    // another process builds the same images
	PhasePull    Phase = "pull"    // the engine fetches layers from a registry
	PhaseInstall Phase = "install" // packages are fetched and installed
	PhaseImport  Phase = "import"  // the root file system goes to the engine
)

// An Event is a step of progress. Its texts are one line of printable
// characters without credentials, whatever a registry or a mirror sent.
type Event struct {
	Phase   Phase
	Image   string // the reference that was asked for
	Item    string // the part this is about, such as a layer's id; empty: all of it
	Message string
	// Warning marks a Message that the user should see also without a
	// terminal: the image can be had, with a restriction.
	Warning bool

	Current int64 // bytes done
	Total   int64 // bytes in all; 0 when not known
}

// Progress is told how it goes. It is never called twice at once and should
// not block for long: what it reports on waits for it. nil is allowed.
type Progress func(Event)

// serial is p for any number of goroutines, with the image filled in.
func (p Progress) serial(ref string) Progress {
	if p == nil {
		return func(Event) {}
	}
	var mu sync.Mutex
	return func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		e.Image = ref
		p(e)
	}
}
