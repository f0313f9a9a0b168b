package api

import "time"

// Sandboxes is the answer of the list.
type Sandboxes struct {
	Sandboxes []Sandbox `json:"sandboxes"`
	// Pools are what waits for new sandboxes; only for callers who may act for all agents.
	Pools []SandboxPool `json:"pools,omitempty"`
}

// A SandboxPool is containers that were made ahead.
type SandboxPool struct {
	For   string `json:"for"`   // agents or e2b
	Size  int    `json:"size"`  // how many are to wait
	Ready int    `json:"ready"` // how many do
}

// Pruned is the answer of prune.
type Pruned struct {
	Removed []string `json:"removed"` // containers
}

// A Sandbox describes a sandbox. Fields about its container are about the one that
// commands go to, which is the last of Containers; they are empty if there is none.
type Sandbox struct {
	Name    string `json:"name"`
	Agent   string `json:"agent,omitempty"`   // its agent; empty: it does not belong to one agent
	Session string `json:"session,omitempty"` // of that agent, with the scope session
	Scope   string `json:"scope,omitempty"`   // session, agent or shared; empty: no gateway made it

	State    string    `json:"state"`    // running, paused (the next command resumes it), ended (the next command gets a new container) or none
	Commands int       `json:"commands"` // running ones, as far as recorded
	Created  time.Time `json:"created"`
	Used     time.Time `json:"used"` // to the minute

	Engine     string `json:"engine,omitempty"`
	Image      string `json:"image,omitempty"`
	Runtime    string `json:"runtime,omitempty"` // empty: the engine's
	Driver     string `json:"driver,omitempty"`
	User       string `json:"user,omitempty"` // uid:gid
	Root       bool   `json:"root,omitempty"` // that is root of the sandbox, whose root file system can be written to
	Network    string `json:"network,omitempty"`
	ConfigHash string `json:"configHash,omitempty"`
	Pooled     bool   `json:"pooled"` // the container was made ahead

	Workspace       string         `json:"workspace,omitempty"`       // the directory, of the gateway's machine
	WorkspaceAccess string         `json:"workspaceAccess,omitempty"` // ro, rw, or none for a private one
	Limits          *SandboxLimits `json:"limits,omitempty"`          // nil: unknown

	Containers []SandboxContainer `json:"containers"`
}

// Values of Sandbox.State.
const (
	SandboxRunning = "running"
	SandboxPaused  = "paused"
	SandboxEnded   = "ended"
	SandboxNone    = "none"
)

// SandboxLimits bound all commands of a container together; 0 is unlimited, except for
// Swap.
type SandboxLimits struct {
	Memory int64   `json:"memory"` // bytes
	Swap   int64   `json:"swap"`   // bytes beside Memory; 0: none; negative: unlimited
	CPUs   float64 `json:"cpus"`
	Pids   int64   `json:"pids"`
}

// A SandboxContainer is one of a sandbox's containers.
type SandboxContainer struct {
	Name    string    `json:"name"`         // at the engine
	ID      string    `json:"id,omitempty"` // at the engine; empty: the engine does not have it
	Image   string    `json:"image"`
	Driver  string    `json:"driver"`
	Created time.Time `json:"created"`
	Running bool      `json:"running"`
}

// A SandboxAddress lets browsers and other programs reach a port of a sandbox by a host
// name.
type SandboxAddress struct {
	URL    string `json:"url"`
	Token  string `json:"token"`  // opens all ports of the sandbox; a secret. Header E2b-Traffic-Access-Token, or Authorization: Bearer
	Open   string `json:"open"`   // for a browser: url with the token in it; it is let in from then on
	Public bool   `json:"public"` // the ports are open to everybody: no token is needed
}

// Recreated is the answer of recreate.
type Recreated struct {
	Name      string `json:"name"`      // of the sandbox
	Container string `json:"container"` // the new one
	// Left are old containers in which commands go on; each is removed after its last
	// command.
	Left []string `json:"left"`
}

// SandboxStats is the present use and the limits of a sandbox's container. If it does
// not run, only the names are set.
type SandboxStats struct {
	Name      string    `json:"name"`
	Container string    `json:"container,omitempty"`
	Running   bool      `json:"running"`
	At        time.Time `json:"at"`

	Memory      int64   `json:"memory"`         // bytes
	MemoryLimit int64   `json:"memoryLimit"`    // bytes; 0: unlimited
	CPU         int64   `json:"cpuNanoseconds"` // used since it was started
	CPULimit    float64 `json:"cpuLimit"`       // processors; 0: unlimited
	Pids        int64   `json:"pids"`
	PidsLimit   int64   `json:"pidsLimit"` // 0: unlimited
	OOMKills    int64   `json:"oomKills"`  // processes killed because memory ran out; -1: unknown
}

// SandboxLog is the answer of log: containers in the order of their creation.
type SandboxLog struct {
	Name       string        `json:"name"`
	Containers []SandboxLife `json:"containers"`
}

// A SandboxLife describes a container, also after its removal.
type SandboxLife struct {
	Container string    `json:"container"`
	Engine    string    `json:"engine,omitempty"`
	Image     string    `json:"image"`
	Driver    string    `json:"driver"`
	Pooled    bool      `json:"pooled"`
	Created   time.Time `json:"created"`
	// Error is why no command ever reached it; empty if there is none.
	Error string        `json:"error,omitempty"`
	Setup *SandboxSetup `json:"setup,omitempty"` // nil: there was no setup command
	Ended *SandboxEnd   `json:"ended,omitempty"` // nil: no end is known
}

// SandboxSetup is the result of a setup command.
type SandboxSetup struct {
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended,omitempty"` // nil: it runs, or was cut short
	Exit    string     `json:"exit,omitempty"`  // such as "exit code 3"; empty: unknown
	Failed  bool       `json:"failed"`
	Bytes   int64      `json:"bytes"`  // bytes written
	Output  string     `json:"output"` // the kept output, up to 1 MiB; a line in the middle says how much is missing
}

// SandboxEnd is how a container ended, in the words of the engine.
type SandboxEnd struct {
	At      time.Time `json:"at"` // when the gateway noticed
	Removed bool      `json:"removed,omitempty"`
	Code    int       `json:"code"`
	OOM     bool      `json:"oomKilled,omitempty"`
	Error   string    `json:"error,omitempty"`
	Why     string    `json:"why,omitempty"` // why it was removed while commands ran in it; empty: on request
}
