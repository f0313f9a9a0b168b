package sandbox

// Steps at which a crash is told apart by what it leaves; see store.go.
const (
	stepIntended         = "intended"          // a box is noted, and nothing made
	stepImaged           = "imaged"            // there is a file system for the workspace
	stepMounted          = "mounted"           // and it is mounted
	stepCreated          = "created"           // the container is there
	stepStarted          = "started"           // and runs
	stepClaimed          = "claimed"           // a box of a pool names the sandbox
	stepUnreferenced     = "unreferenced"      // and answers, and the sandbox does not know it
	stepReferenced       = "referenced"        // and the sandbox knows it
	stepContainerRemoved = "container removed" // of a box that is removed
)

// reached is called at each step. Tests replace it.
var reached = func(step string) {}
