package importrules

import "slices"

// A layer is a part of the house. Its packages import each other, and what is in the
// layers that it stands on. Tests import what they need, but front and outside only from
// there.
type layer struct {
	name     string
	on       []string
	packages []string // "x/..." is x and all below it
}

var layers = []layer{
	// They know nothing of Corral.
	{"tools", nil, []string{
		"internal/coalesce", "internal/confine", "internal/decided", "internal/diskimage", "internal/escape", "internal/json5", "internal/lazy", "internal/located",
		"internal/packed", "internal/procfs", "internal/readahead", "internal/recent", "internal/spelling", "internal/state/atomicfile", "internal/state/filelock", "internal/streams", "internal/strictjson", "internal/terminal", "internal/tunnel", "internal/turn",
		"internal/warden/landlock", "internal/warden/login", "internal/warden/spawn/...", "pathenv/lookup",
	}},
	{"contract", []string{"tools"}, []string{"."}},
	// What is kept, what goes over wires, and what a command is made of.
	{"ground", []string{"tools", "contract"}, []string{
		"internal/leftover", "internal/origin", "internal/script", "internal/state/journal", "internal/state/selfcert", "internal/warden/outlog", "internal/warden/wardenbin", "internal/warden/wire", "internal/words",
		"pathenv", "runner", "sandbox/files", "sandbox/place", "sandbox/secrets", "session/keys",
	}},
	// Hosts that run commands. It decides nothing.
	{"execution", []string{"tools", "contract", "ground"}, []string{
		"cmd/corral-warden", "hostexec", "images", "internal/streamexec", "internal/warden", "internal/warden/wardenexec", "nodeexec/sshexec",
		"sandbox", "sandbox/boundary", "sandbox/containerd", "sandbox/docker", "sandbox/engine", "sandbox/engines", "sandbox/execdriver", "sandbox/private", "sandbox/seccomp", "sandbox/users",
	}},
	// What may run, and who is asked. It runs nothing.
	{"decision", []string{"tools", "contract", "ground"}, []string{"api", "config", "internal/programs", "policy/..."}},
	// Other machines, and other gateways.
	{"fleet", []string{"tools", "contract", "ground", "decision"}, []string{"internal/fleet/...", "nodeexec"}},
	// What agents and platforms call.
	{"service", []string{"tools", "contract", "ground", "decision"}, []string{"client", "console", "gateway", "gateway/access", "gateway/e2b", "gateway/e2b/archives", "gateway/e2b/envdpb", "gateway/listen", "gateway/ports", "session", "tool/..."}},
	// It puts all of it together.
	{"composition", []string{"tools", "contract", "ground", "execution", "decision", "fleet", "service"}, []string{"daemon", "internal/daemon", "internal/doctor", "internal/inspect", "internal/reach"}},
	// Programs, and what is theirs alone.
	{"front", []string{"tools", "contract", "ground", "execution", "decision", "fleet", "service", "composition"}, []string{"cmd/corral", "cmd/corral-worker-claude", "internal/cli/...", "internal/cmdline", "internal/foreground", "internal/report", "internal/unit"}},
	// They try the product from outside, and are no part of it.
	{"outside", []string{"tools", "contract", "ground", "execution", "decision", "fleet", "service", "composition", "front"}, []string{"cmd/corral-escape", "e2e/..."}},
	// Only tests import them.
	{"tests", []string{"tools", "contract", "ground", "execution", "decision", "fleet", "service", "composition"}, []string{"internal/test/..."}},
}

// unlinked must not be reached from these packages, by however many steps: the
// warden is small, and runs in every sandbox.
var unlinked = map[string][]string{
	"internal/warden":   wardenFree,
	"cmd/corral-warden": wardenFree,
	// What an embedding program links: no engine for the host, one engine for
	// Docker, no server for a client. See docs/how-to/development.md.
	"hostexec":       {module + "/sandbox", "net/http", "github.com/docker/", "github.com/containerd/", "github.com/nats-io/", "google.golang.org/grpc"},
	"sandbox/docker": {"github.com/containerd/containerd/v2/", "github.com/nats-io/", "google.golang.org/grpc"},
	"client":         slices.Concat(executors, []string{module + "/policy/guard", "github.com/docker/", "github.com/containerd/", "github.com/nats-io/", "google.golang.org/grpc"}),
	// What decides and what agents call start nothing by themselves.
	"policy/guard": executors,
	"tool":         slices.Concat(executors, []string{module + "/policy/guard"}),
	// Anthropic's SDK would make corral a third larger.
	"cmd/corral":               {"github.com/anthropics/", "testing", "github.com/stretchr/", "github.com/tmc/langchaingo/", "github.com/getkin/", "github.com/aws/", "k8s.io/"},
	"cmd/corral-worker-claude": slices.Concat(executors, []string{module + "/internal/daemon", "github.com/docker/", "github.com/nats-io/"}),
}

// executors are what any of them links.
var executors = []string{module + "/hostexec", module + "/nodeexec", module + "/internal/warden/wardenexec", module + "/internal/fleet/fabric"}

var wardenFree = []string{"github.com/docker/", "github.com/nats-io/", "net/http", "encoding/json"}

// standardOnly reach nothing but the standard library and this repository: the
// contract costs whoever imports it nothing.
var standardOnly = []string{"."}

// maxLines bounds a file.
const maxLines = 600

// maxPackage bounds what is in a directory without tests, in lines. With a path that ends
// with /... it is of all directories below together.
var maxPackage = map[string]int{".": 1300, "internal/cli/...": 9000, "": 6000}
