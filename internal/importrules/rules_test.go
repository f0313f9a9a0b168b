package importrules

import "slices"

// A rule says what of this repository a package may import. Packages are named
// by their directory; "." is the root.
type rule struct {
	imports []string
	tests   []string // what its tests may import beside that, themselves and testOnly
}

// The layers, from the bottom. A layer imports what is below it, not what is
// beside it, unless the table says so.
var (
	contract = []string{"."}
	ground   = slices.Concat(contract, []string{"pathenv", "pathenv/lookup", "internal/atomicfile", "internal/coalesce", "internal/confine", "internal/landlock", "internal/spawn", "internal/turn", "internal/wire", "internal/outlog", "internal/wardenbin", "internal/state/filelock", "internal/state/journal"})
	warden   = slices.Concat(ground, []string{"internal/warden", "internal/wardenexec"})
	hosts    = slices.Concat(warden, []string{"hostexec", "sandbox", "sandbox/boundary", "sandbox/containerd", "sandbox/docker", "sandbox/engines", "sandbox/files", "nodeexec", "nodeexec/sshexec", "images"})
	service  = slices.Concat(hosts, []string{"policy", "policy/approval", "policy/guard", "config", "session", "tool", "tool/mcp", "tool/patch", "tool/runshell", "gateway", "client", "api"})
	program  = slices.Concat(service, []string{"internal/cli"})
)

// testOnly are for tests, and for each other, alone.
var testOnly = []string{
	"internal/clitest", "internal/damagetest", "internal/desktest", "internal/doctable", "internal/enginetest", "internal/errtest", "internal/escape/probetest", "internal/exectest", "internal/exectest/pattern", "internal/exectrace", "internal/fakeexec", "internal/filestest", "internal/moments", "internal/natstest", "internal/sandboxtest", "internal/testdir", "internal/testnet", "internal/traces", "internal/wardenbin/wardenbintest",
}

// rules may name packages that do not exist yet.
var rules = map[string]rule{
	".": {imports: []string{"internal/confine"}, tests: []string{"hostexec", "nodeexec"}},

	"policy":          {imports: contract},
	"policy/approval": {imports: []string{".", "internal/atomicfile", "internal/state/filelock", "internal/state/journal", "policy"}},
	"policy/guard":    {imports: []string{".", "api", "internal/turn", "internal/atomicfile", "internal/state/journal", "internal/strictjson", "policy", "policy/approval", "config", "pathenv"}, tests: hosts},

	"pathenv":        {imports: []string{".", "pathenv/lookup"}},
	"pathenv/lookup": {},
	"internal/turn":  {},
	"internal/wire":  {imports: contract},
	// What a command may execute and write, and how the kernel keeps it to that.
	"internal/confine":        {},
	"internal/landlock":       {imports: []string{"internal/confine", "internal/spawn"}},
	"internal/spawn":          {imports: []string{"internal/spawn/vfork"}},
	"internal/spawn/vfork":    {},
	"internal/outlog":         {imports: contract},
	"internal/atomicfile":     {},
	"internal/state/filelock": {},
	"internal/state/journal":  {imports: contract},
	"internal/strictjson":     {},
	"internal/coalesce":       {},
	"internal/wardenbin":      {imports: contract},
	"internal/warden":         {imports: ground},
	"internal/wardenexec":     {imports: append([]string{"internal/warden"}, ground...)},
	// Work on files through commands.
	"internal/script": {imports: contract, tests: hosts},
	"sandbox/files":   {imports: []string{".", "internal/script"}, tests: hosts},

	"hostexec":           {imports: warden, tests: []string{"nodeexec"}},
	"sandbox":            {imports: append([]string{"sandbox/files", "images", "internal/diskimage", "internal/spelling", "internal/streamexec", "sandbox/boundary", "sandbox/seccomp"}, warden...), tests: hosts},
	"sandbox/containerd": {imports: append([]string{"sandbox", "sandbox/boundary", "sandbox/seccomp", "images"}, warden...), tests: hosts},
	// The choice of an engine, for programs that do not care which.
	"sandbox/engines": {imports: []string{".", "pathenv", "images", "sandbox", "sandbox/containerd", "sandbox/docker"}, tests: hosts},
	"sandbox/docker":  {imports: append([]string{"sandbox", "sandbox/boundary", "images"}, warden...)},
	// What a sandbox may not have, and what it may ask the kernel for.
	"sandbox/boundary": {imports: contract},
	"sandbox/seccomp":  {imports: contract},
	"nodeexec":         {imports: []string{".", "internal/fabric", "internal/streams"}, tests: append([]string{"internal/broker", "policy", "policy/approval", "policy/guard", "config"}, hosts...)},
	"images":           {imports: []string{".", "internal/state/filelock"}},
	"config":           {imports: []string{".", "policy", "pathenv", "internal/atomicfile", "internal/json5", "internal/spelling"}},
	"internal/json5":   {},
	// What a mistyped name was meant to be.
	"internal/spelling": {},
	"session":           {imports: []string{".", "internal/state/filelock", "internal/state/journal", "session/keys"}, tests: append([]string{"internal/broker", "internal/fabric"}, hosts...)},
	"session/keys":      {imports: contract},
	"tool":              {imports: []string{".", "internal/strictjson", "session", "session/keys", "policy", "policy/approval"}, tests: append([]string{"policy/guard", "config"}, hosts...)},
	"tool/runshell":     {imports: []string{".", "pathenv", "policy", "tool"}, tests: append([]string{"session", "tool/mcp"}, hosts...)},
	"tool/patch":        {imports: []string{".", "internal/strictjson", "internal/script", "internal/state/filelock"}, tests: hosts},
	"tool/mcp":          {imports: []string{".", "tool", "policy/approval"}, tests: append([]string{"session", "policy", "policy/guard", "config"}, hosts...)},
	"gateway":           {imports: []string{".", "internal/turn", "internal/strictjson", "session", "sandbox/files", "api", "internal/atomicfile", "internal/state/filelock", "internal/state/journal", "policy", "policy/approval", "config"}, tests: append([]string{"policy/guard", "client", "tool", "internal/hub", "internal/pairing"}, hosts...)},
	"client":            {imports: []string{".", "session", "tool", "sandbox/files", "api", "internal/streams", "policy", "policy/approval", "config"}, tests: append([]string{"policy/guard", "gateway", "internal/hub", "internal/pairing"}, hosts...)},
	"api":               {imports: []string{".", "pathenv", "policy", "policy/approval"}},
	"internal/streams":  {},
	// What limits a private workspace.
	"internal/diskimage": {},
	// Hosts of which there is only what commands read and write.
	"internal/streamexec": {imports: []string{".", "internal/outlog", "internal/state/journal", "internal/turn"}},
	"nodeexec/sshexec":    {imports: []string{".", "pathenv", "internal/streamexec"}, tests: hosts},
	// What a gateway and a node say to each other: in the terms of the HTTP API
	// where it says the same.
	"internal/fabric": {imports: []string{".", "api", "internal/confine"}, tests: []string{"internal/broker"}},
	"internal/broker": {imports: []string{".", "internal/atomicfile", "internal/fabric"}, tests: []string{"internal/pairing"}},

	"internal/pairing":        {imports: []string{".", "internal/natskv", "internal/state/filelock", "internal/state/journal"}},
	"internal/join":           {imports: []string{".", "api", "internal/fabric", "internal/pairing"}, tests: []string{"internal/broker"}},
	"internal/hub":            {imports: []string{".", "nodeexec", "api", "internal/approvals", "internal/atomicfile", "internal/broker", "internal/fabric", "internal/join", "internal/pairing", "policy/approval"}, tests: append([]string{"internal/hub", "policy"}, hosts...)},
	"internal/cli/termfilter": {},
	"internal/cli":            {imports: append([]string{"internal/cli/termfilter", "internal/escape", "internal/escape/probes", "internal/broker", "internal/hub", "internal/join", "internal/node", "internal/pairing"}, service...), tests: append([]string{"internal/broker", "internal/fabric", "internal/join", "internal/pairing"}, service...)},
	"internal/natskv":         {imports: contract},
	"internal/approvals":      {imports: []string{".", "internal/natskv", "policy/approval"}, tests: []string{"policy"}},
	// The library of the message server is package broker's, which knows how its
	// certificate is pinned.
	"internal/node":     {imports: []string{".", "internal/atomicfile", "internal/broker", "internal/fabric", "internal/join", "internal/pairing", "internal/state/filelock", "internal/state/journal"}, tests: append([]string{"api", "internal/hub"}, hosts...)},
	"cmd/corral":        {imports: program},
	"cmd/corral-warden": {imports: append([]string{"internal/warden"}, ground...)},

	// What tries to get out of sandboxes, inside and outside of them.
	"internal/escape":        {},
	"internal/escape/probes": {imports: []string{"internal/escape"}},
	"internal/escape/probe":  {imports: []string{"internal/escape/probes"}},

	"e2e":                              {tests: program},
	"e2e/escape":                       {tests: append([]string{"internal/escape", "internal/escape/probes"}, program...)},
	"e2e/bench":                        {imports: append([]string{"client", "session", "tool", "policy", "internal/broker", "internal/fabric"}, hosts...)},
	"e2e/chaos":                        {tests: append([]string{"client", "session"}, program...)},
	"e2e/crash":                        {tests: append([]string{"internal/hub", "internal/join", "internal/pairing"}, program...)},
	"e2e/mcp":                          {tests: append([]string{"session", "tool", "tool/mcp"}, hosts...)},
	"e2e/module":                       {tests: hosts},
	"e2e/interactive":                  {tests: append([]string{"session", "session/keys"}, program...)},
	"e2e/image":                        {imports: []string{".", "images"}},
	"e2e/sandbox/containerd":           {tests: hosts},
	"e2e/sandbox/docker":               {tests: hosts},
	"e2e/sandbox/files":                {tests: hosts},
	"e2e/sandbox/gvisor":               {tests: hosts},
	"e2e/sandbox/owners":               {tests: hosts},
	"e2e/sandbox/podman":               {tests: hosts},
	"internal/escape/probetest":        {},
	"internal/exectest":                {imports: []string{".", "internal/exectest/pattern"}, tests: hosts},
	"internal/exectest/pattern":        {},
	"internal/exectest/testprog":       {imports: []string{"internal/exectest/pattern"}},
	"internal/clitest":                 {},
	"internal/enginetest":              {imports: append([]string{"internal/testdir"}, hosts...)},
	"internal/damagetest":              {},
	"internal/errtest":                 {},
	"internal/exectrace":               {imports: []string{"internal/confine", "internal/landlock", "internal/spawn"}},
	"internal/fakeexec":                {imports: contract},
	"internal/filestest":               {imports: []string{".", "sandbox/files"}},
	"internal/doctable":                {},
	"internal/desktest":                {imports: []string{".", "policy", "policy/approval"}},
	"internal/testnet":                 {},
	"internal/testdir":                 {tests: hosts},
	"internal/moments":                 {},
	"internal/natstest":                {},
	"internal/sandboxtest":             {imports: append([]string{"internal/enginetest", "internal/exectest", "internal/testdir", "internal/wardenbin/wardenbintest"}, hosts...)},
	"internal/traces":                  {},
	"internal/wardenbin/wardenbintest": {imports: []string{"internal/testdir", "internal/wardenbin"}},
	"internal/mutate":                  {},
	"internal/testreport":              {},
	"internal/importrules":             {},
	"internal/deps":                    {},
}

// unlinked must not be reached from these packages, by however many steps: the
// warden is small, and runs in every sandbox.
var unlinked = map[string][]string{
	"internal/warden":   wardenFree,
	"cmd/corral-warden": wardenFree,
	// What an embedding program links: no engine for the host, one engine for
	// Docker, no server for a client. See docs/development.md.
	"hostexec":       {"net/http", "github.com/docker/", "github.com/containerd/", "github.com/nats-io/", "google.golang.org/grpc"},
	"sandbox/docker": {"github.com/containerd/containerd/", "github.com/nats-io/", "google.golang.org/grpc"},
	"client":         slices.Concat(executors, []string{module + "/policy/guard", "github.com/docker/", "github.com/containerd/", "github.com/nats-io/", "google.golang.org/grpc"}),
	// What decides and what agents call start nothing by themselves.
	"policy/guard": executors,
	"tool":         slices.Concat(executors, []string{module + "/policy/guard"}),
	"cmd/corral":   {"testing", "github.com/stretchr/", "github.com/tmc/langchaingo/", "github.com/getkin/", "github.com/aws/", "k8s.io/"},
}

// executors are what any of them links.
var executors = []string{module + "/hostexec", module + "/nodeexec", module + "/internal/wardenexec", module + "/internal/fabric"}

var wardenFree = []string{"github.com/docker/", "github.com/nats-io/", "net/http", "encoding/json"}

// standardOnly reach nothing but the standard library and this repository: the
// contract costs whoever imports it nothing.
var standardOnly = []string{"."}

const maxLines = 600
