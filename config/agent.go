package config

import (
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
)

// An Agent is what applies to an agent. In the tags of its fields, and of
// those inside, stand the keys of the file: see fields.go.
type Agent struct {
	ID string `json:"-"`
	// Err says why nothing may run: the configuration cannot be used. The
	// values are then as strict as there are.
	Err error `json:"-"`

	Workspace  policy.Setting[string] `json:"workspace" pattern:"^(/|~/|[A-Za-z]:[/\\\\])" like:"/srv/checkout" by:"sandbox, exec" doc:"Directory to work in, absolute or beginning with ~/. Without one: a private directory in a sandbox, and the gateway's own on the gateway."`
	Unattended policy.Setting[bool]   `json:"unattended" default:"false" by:"guard" doc:"Nobody can answer for this agent (a job, a cron agent): what would need an approval goes by askFallback at once."`

	Sandbox Sandbox `json:"sandbox" doc:"The container that commands run in."`
	Tools   Tools   `json:"tools" doc:"What an agent may call, and how it goes."`
}

// A Sandbox is what containers are like.
type Sandbox struct {
	Mode     policy.Setting[Mode]  `json:"mode" default:"off" by:"router" doc:"Whether there is a sandbox. With off, commands for it run on the gateway, in no container and without approval."`
	Required policy.Setting[bool]  `json:"required" default:"false" by:"router" doc:"With the sandbox off, refuse commands that are meant for it, instead of running them on the gateway."`
	Scope    policy.Setting[Scope] `json:"scope" default:"agent" by:"sandbox" doc:"What has a container of its own: every session, every agent, or all together."`

	Image   policy.Setting[string] `json:"image" by:"sandbox" doc:"Image that it runs on. Without one: corral/sandbox:bookworm."`
	Engine  policy.Setting[Engine] `json:"engine" default:"auto" by:"sandbox" doc:"What makes containers. auto is the first of docker, containerd and podman that answers."`
	Runtime policy.Setting[string] `json:"runtime" by:"sandbox" doc:"OCI runtime that the engine knows, such as runsc. Without one: the engine's."`
	Driver  policy.Setting[Driver] `json:"driver" default:"auto" by:"sandbox" doc:"How commands are started in it."`

	Pool  Pool  `json:"pool" doc:"Containers that a gateway makes ahead."`
	Prune Prune `json:"prune" doc:"When a gateway removes what is old: never while something runs in it."`

	WorkspaceAccess policy.Setting[Access] `json:"workspaceAccess" default:"none" by:"sandbox" doc:"What it may do with the workspace. none is a private directory that it can write to."`

	WorkspaceSize   policy.Setting[Size]   `json:"workspaceSize" unit:"bytes" by:"sandbox" doc:"What a private workspace may take, at least 16m, with a file for each 8 KiB: a command that writes more gets no space left on device. It counts for workspaces that are made from then on, and needs root and an engine on this machine; where that is missing, commands are refused. Without it: 512m in memory, and on the disk as much as that has. See docs/explain/sandbox.md."`
	WorkspaceMedium policy.Setting[Medium] `json:"workspaceMedium" default:"disk" by:"sandbox" doc:"Where a private workspace is. In memory it is part of what sandbox.memory allows, and goes with its container."`

	User     policy.Setting[string] `json:"user" pattern:"^[1-9][0-9]{0,9}:[1-9][0-9]{0,9}$" like:"1000:1000" form:"UID:GID in numbers, neither of them root's" by:"sandbox" doc:"UID:GID that commands run as, never root. Without one: the owner of the workspace."`
	UIDRange policy.Setting[string] `json:"uidRange" default:"1879048192-1879113727" pattern:"^(shared|[1-9][0-9]{3,9}-[1-9][0-9]{3,9})$" like:"1879048192-1879113727" form:"FIRST-LAST, user IDs that nobody else has, or shared" by:"sandbox" doc:"The user IDs, and group IDs of the same numbers, that containers have for themselves: no two sandboxes share one, and so none can use up what the kernel allows each user. Files keep their owner. With shared, and where sandbox.user names a user, commands run as the owner. See docs/explain/file-owners.md."`

	Memory policy.Setting[Size]  `json:"memory" default:"2g" unit:"bytes" by:"sandbox" doc:"Memory it may use: bytes, a number with k, m, g or t (powers of 1024), or unlimited."`
	Swap   policy.Setting[Size]  `json:"swap" unit:"bytes" by:"sandbox" doc:"Swap it may use beside the memory. Without any: none."`
	CPUs   policy.Setting[Count] `json:"cpus" default:"2" min:"0.01" max:"4096" unit:"processors" by:"sandbox" doc:"Processors it may use, such as 0.5, or unlimited. The default is at most half of those that the engine's machine has."`
	Pids   policy.Setting[Whole] `json:"pids" default:"512" min:"1" max:"4194304" unit:"processes" by:"sandbox" doc:"Processes it may have, or unlimited. With gVisor, which does not limit them itself, it may have sixteen times as many threads on this machine."`

	Shm       policy.Setting[Size]  `json:"shm" default:"64m" unit:"bytes" by:"sandbox" doc:"Size of /dev/shm, which is in memory: browsers and data loaders of machine learning share memory there."`
	Tmp       policy.Setting[Size]  `json:"tmp" default:"512m" unit:"bytes" by:"sandbox" doc:"Size of /tmp, which is in memory."`
	FileSize  policy.Setting[Size]  `json:"fileSize" default:"16g" unit:"bytes" by:"sandbox" doc:"What a file may grow to, or unlimited."`
	OpenFiles policy.Setting[Whole] `json:"openFiles" default:"65536" min:"64" max:"1048576" by:"sandbox" doc:"Files that a process may have open, or unlimited: as many as the engine allows."`

	OutputRate policy.Setting[Size]          `json:"outputRate" default:"unlimited" unit:"bytes" by:"sandbox" doc:"What is taken of a command's output in a second, beyond the first MiB: one that writes more waits, and nothing is lost. It counts for commands that are started from then on."`
	Lifetime   policy.Setting[time.Duration] `json:"lifetime" default:"0" min:"0" max:"31536000" unit:"s" by:"sandbox" doc:"How long commands go to a container; the next gets a new one, with the same workspace. What still runs in the old one five minutes later is ended by the gateway, which looks every five minutes. 0: for ever."`

	// Binds has the lists of every level that has one.
	Binds     []policy.Setting[[]string] `json:"binds" item:"^(/[^:]*|~(/[^:]*)?):/[^:]*(:(ro|rw))?$" like:"/srv/data:/data:ro" form:"SOURCE:TARGET, or that with :ro or :rw, and both of them absolute paths" by:"sandbox" doc:"Directories and files of this machine that it has beside the workspace, as SOURCE:TARGET, with :ro if they are not to be written to; a leading ~/ is the home directory. The lists of all levels count. What is refused is in docs/reference/sandbox-security.md."`
	BindRoots policy.Setting[[]string]   `json:"bindRoots" item:"^(/|~/)" like:"/srv" form:"an absolute path" by:"sandbox" doc:"Directories in which the sources of binds have to be. Without a list: anywhere that is not refused."`
	// Secrets are those of every level; of one name, the agent's.
	Secrets map[string]Secret `json:"secrets" by:"sandbox" doc:"Files that commands find in /run/secrets, by their names: read from a file of this machine or from a variable of the gateway's environment when the container is made, and kept in memory. Those of all levels count."`

	// Env are the variables of every level; of one name, the agent's.
	Env      map[string]string      `json:"env" by:"sandbox" doc:"Variables that every command in it has, by their names; what a call sets wins. They win over those of the image, and directories of a PATH come before the image's. A name that looks like a credential is no reason to leave one out: but what is secret is better a file, in secrets. Those of all levels count."`
	TimeZone policy.Setting[string] `json:"timezone" pattern:"^[A-Za-z0-9][A-Za-z0-9_+,./:<>-]{0,63}$" like:"Europe/Berlin" by:"sandbox" doc:"Time zone that commands have in TZ: a name of the IANA database such as Europe/Berlin, which the image has to know, too, or one as POSIX has them, such as CET-1CEST. Without one: UTC."`

	Root               policy.Setting[bool]   `json:"root" default:"false" by:"sandbox" doc:"Whether commands are root in the sandbox and can write to its root file system, for as long as the container lives. Only where that root has no rights on this machine: with gVisor (runtime), which then has no directory of this machine that it can write to, or an engine that remaps users (userns-remap)."`
	Network            policy.Setting[string] `json:"network" default:"none" like:"none" by:"sandbox" doc:"Network it is on: none, bridge for the engine's own, which reaches everything, or the name of one that the engine has. The machine's own and other containers' are refused."`
	AllowPublicTraffic policy.Setting[bool]   `json:"allowPublicTraffic" default:"false" by:"gateway" doc:"Whether anybody reaches the ports of its sandboxes by their host names (gateway.domain), without a key or the sandbox's token."`
	Seccomp            policy.Setting[string] `json:"seccomp" like:"/etc/corral/seccomp.json" by:"sandbox" doc:"Seccomp profile, as the absolute path of a file in the form of the OCI runtime specification; unconfined is refused. Without one: Corral's, see docs/reference/seccomp.md."`
	AppArmor           policy.Setting[string] `json:"apparmor" like:"docker-default" by:"sandbox" doc:"Name of an AppArmor profile that is loaded; unconfined is refused. Without one: the engine's."`

	Login policy.Setting[Login] `json:"login" default:"always" by:"sandbox" doc:"How commands get what the login profile leaves: always reads it for each command that is run by a login shell, snapshot keeps the environment that it left for the same variables and directory, as long as its files do not change. A profile that leaves more than an environment is read always. See docs/explain/login.md."`

	SetupCommand policy.Setting[string] `json:"setupCommand" by:"sandbox" doc:"Shell text that is run once in every new container, before the first command: in a login shell, as the sandbox's user, in the workspace, for ten minutes at most. If it fails, the container is not used. See docs/explain/sandbox.md."`
}

// A Secret says where the content of a file in a sandbox is from: one of the two.
type Secret struct {
	File string `json:"file"` // absolute, or beginning with ~/
	Env  string `json:"env"`
}

// A Pool is of containers that are ready.
type Pool struct {
	Size policy.Setting[int] `json:"size" default:"0" min:"0" max:"100" by:"sandbox" doc:"How many containers are kept ready, so that the first command of a sandbox need not wait for one. They are made by the settings for all agents, those outside of agents.list; an agent with other settings does not get one."`
}

// Prune says when sandboxes are old.
type Prune struct {
	IdleHours  policy.Setting[time.Duration] `json:"idleHours" default:"24" min:"0" max:"87600" unit:"h" by:"sandbox" doc:"A sandbox that was not used for so long is removed, with its private workspace; 0: never."`
	MaxAgeDays policy.Setting[time.Duration] `json:"maxAgeDays" default:"7" min:"0" max:"3650" unit:"d" by:"sandbox" doc:"When a container is so old, the next command gets a new one, with the same workspace; 0: never."`
}

// Tools are the tools of an agent.
type Tools struct {
	// Allow and Deny have the lists of every level that has one: see Check.
	Allow []policy.Setting[[]Tool] `json:"allow" by:"tools" doc:"The tools that may be called: exec, process, apply_patch, run_shell_command, group:runtime (these four), or *. exec means apply_patch as well. Without a list: all. Of several levels each has to allow a tool."`
	Deny  []policy.Setting[[]Tool] `json:"deny" by:"tools" doc:"The tools that may not be called, whatever allows them. exec means apply_patch and run_shell_command as well. The lists of all levels count."`

	Exec            Exec            `json:"exec" doc:"Commands."`
	Elevated        Elevated        `json:"elevated" doc:"Calls that leave the sandbox for the gateway, or for the node that is bound."`
	RunShellCommand RunShellCommand `json:"runShellCommand" doc:"The tool run_shell_command."`
}

// Exec is how commands run.
type Exec struct {
	Host        policy.Setting[corral.Host]     `json:"host" default:"sandbox" by:"router" doc:"Where commands go."`
	Security    policy.Setting[policy.Security] `json:"security" default:"allowlist" by:"guard" doc:"What may run on the gateway and on nodes; the host's own approvals file can be stricter. In a sandbox it means nothing: that is its own boundary."`
	Ask         policy.Setting[policy.Ask]      `json:"ask" default:"on-miss" by:"guard" doc:"When a command on the gateway or a node needs an approval."`
	AskFallback policy.Setting[policy.Security] `json:"askFallback" default:"deny" by:"guard" doc:"What applies when an approval is needed and nobody gives it in time."`
	Node        policy.Setting[string]          `json:"node" by:"router" doc:"The node that the agent is bound to: its ID, name, IP address or a unique prefix of the ID; or pool:NAME, any of those labelled pool=NAME."`

	PathPrepend policy.Setting[[]string]        `json:"pathPrepend" by:"exec" doc:"Directories to put before PATH; a leading ~/ is the home directory of the gateway's account, also in a sandbox. On a node only where the call sets env.PATH."`
	EnvPath     policy.Setting[pathenv.EnvPath] `json:"envPath" default:"reject" by:"exec" doc:"What the gateway does with a PATH in a call's env: reject the call, or take it in place of the login shell's and its own."`
	EnvAllow    policy.Setting[[]string]        `json:"envAllow" item:"^[A-Za-z_][A-Za-z0-9_]*$" like:"GH_TOKEN" by:"exec" doc:"Variables of the gateway's environment that commands get although they look like credentials. What a call sets is another matter: env.allow."`

	Env Environment `json:"env" doc:"Variables of calls."`

	Enforce policy.Setting[policy.Enforce] `json:"enforce" default:"try" by:"exec" doc:"Whether the kernel keeps commands on the gateway and on nodes that security allowlist allows to what was decided: where it cannot, with require the command does not run, with try it runs and the result says so. Linux alone can, with Landlock. See docs/explain/enforcement.md."`

	Allowlist Allowlist `json:"allowlist" doc:"What security allowlist lets through beside plain commands and pipelines."`
	// Rules are those of every level.
	Rules []policy.Rule `json:"rules" by:"guard" doc:"What is allowed, asked about or denied. Deny beats ask, which beats allow; the rules of all levels count."`

	SafeBins    policy.Setting[[]string] `json:"safeBins" default:"[\"cut\", \"uniq\", \"head\", \"tail\", \"tr\", \"wc\"]" item:"^[^/\\s]+$" like:"jq" by:"guard" doc:"Names of filters that need no rule where they only read standard input."`
	SafeBinDirs policy.Setting[[]string] `json:"safeBinDirs" item:"^/" like:"/opt/tools/bin" by:"guard" doc:"Directories in which safe bins are trusted, beside /bin and /usr/bin."`
	// SafeBinProfiles are those of every level; of one name, the agent's.
	SafeBinProfiles map[string]policy.SafeBin `json:"safeBinProfiles" by:"guard" doc:"Which uses of further safe bins read nothing but standard input, by name. Those of all levels count."`

	NotifyOnExit            policy.Setting[bool]          `json:"notifyOnExit" default:"true" by:"exec" doc:"Whether the end of a background session is an event."`
	ApprovalRunningNoticeMs policy.Setting[time.Duration] `json:"approvalRunningNoticeMs" default:"10000" min:"0" max:"3600000" unit:"ms" by:"approvals" doc:"How long an approved command runs until one event says that it still does; 0: never."`
	YieldMs                 policy.Setting[time.Duration] `json:"yieldMs" default:"10000" min:"10" max:"120000" unit:"ms" by:"exec" doc:"How long a call waits for a command before it goes on in the background."`
	Timeout                 policy.Setting[time.Duration] `json:"timeout" default:"1800" min:"0" max:"31536000" unit:"s" by:"exec" doc:"How long a command may run, also in the background; 0: for ever."`

	ApplyPatch ApplyPatch `json:"applyPatch" doc:"The tool apply_patch."`
}

// Environment is what calls may set.
type Environment struct {
	Allow policy.Setting[[]string] `json:"allow" item:"^[A-Za-z_][A-Za-z0-9_]*(=.*)?$" like:"GOFLAGS=-mod=mod" by:"guard" doc:"Variables that a call may set under security allowlist without being asked, beside locale, terminal, time zone, colours and CI: NAME with any value, NAME=VALUE, or NAME=sha256: and the SHA-256 of the value in hex. On a node the node's own list counts. Those that docs/reference/policy.md lists as refused stay so."`
}

// An Allowlist says what beside plain commands and pipelines is let through.
type Allowlist struct {
	Chaining     policy.Setting[Chaining]     `json:"chaining" default:"none" by:"guard" doc:"Lists of commands (; && || and new lines): none, or those whose commands are all allowed."`
	Redirections policy.Setting[Redirections] `json:"redirections" default:"none" by:"guard" doc:"Redirections: none, or those that do no harm (to and from /dev/null, of one output into the other, here-documents that are not expanded)."`
}

// ApplyPatch is what apply_patch may do.
type ApplyPatch struct {
	Enabled       policy.Setting[bool]     `json:"enabled" default:"false" by:"tools" doc:"Whether there is the tool."`
	AllowModels   policy.Setting[[]string] `json:"allowModels" by:"tools" doc:"Models that may use it, such as gpt-5.2 or openai/gpt-5.2. Without a list: every model of OpenAI."`
	WorkspaceOnly policy.Setting[Always]   `json:"workspaceOnly" default:"true" by:"apply_patch" doc:"apply_patch keeps to the workspace, always; use exec for files elsewhere."`
}

// Elevated says who may leave the sandbox. Every level is a gate: see
// Agent.CheckElevated.
type Elevated struct {
	Enabled   []policy.Setting[bool]    `json:"enabled" default:"true" by:"exec" doc:"Whether it may be used. A level that says false cannot be overruled."`
	AllowFrom []policy.Setting[Senders] `json:"allowFrom" by:"exec" doc:"Who may: entries for all providers, or for each by its name. Without any: nobody. Each level that has some has to let the sender through."`
	Default   policy.Setting[Level]     `json:"default" default:"off" by:"exec" doc:"What a call that does not set elevated gets, if its sender may use it. full skips approvals, also for elevated: true."`
}

// RunShellCommand is the tool run_shell_command.
type RunShellCommand struct {
	Enabled      policy.Setting[bool]     `json:"enabled" default:"false" by:"tools" doc:"Whether there is the tool."`
	Profile      policy.Setting[Profile]  `json:"profile" default:"qwen" by:"run_shell_command" doc:"Whose tool it behaves like. asimi has no is_background, and no command substitution."`
	CoreTools    policy.Setting[[]string] `json:"coreTools" by:"run_shell_command" doc:"What may run: run_shell_command, or run_shell_command(PREFIX). Without a list: everything; with one that says nothing of the tool: nothing, unless somebody approves it."`
	ExcludeTools policy.Setting[[]string] `json:"excludeTools" by:"run_shell_command" doc:"What may not run, in the same form; it always wins."`
}

// Commands are what people can say to an agent.
type Commands struct {
	AllowFrom policy.Setting[Senders] `json:"allowFrom" by:"commands" doc:"Who may use /exec: entries for all providers, or for each by its name. Without any: nobody."`
}

// Approvals are where approvals are kept.
type Approvals struct {
	File          policy.Setting[string]        `json:"file" pattern:"^(/|~/|[A-Za-z]:[/\\\\])" like:"/etc/corral/exec-approvals.json" by:"approvals" doc:"The host's approvals file, absolute or beginning with ~/. Without one: exec-approvals.json in the state directory."`
	ExpirySeconds policy.Setting[time.Duration] `json:"expirySeconds" default:"1800" min:"1" max:"2592000" unit:"s" by:"approvals" doc:"How long an approval can be given."`
}

// Nodes are where a gateway listens for nodes, and which it connects to itself.
type Nodes struct {
	Listen    policy.Setting[string]   `json:"listen" pattern:"^[^\\s]*:PORT$" like:"0.0.0.0:7422" by:"gateway" doc:"Address and port to listen on for nodes, over TLS. Without this and websocket there are none."`
	WebSocket policy.Setting[string]   `json:"websocket" pattern:"^[^\\s]*:PORT$" like:"0.0.0.0:443" by:"gateway" doc:"Address and port to listen on for nodes that connect by WebSocket, over TLS."`
	Advertise policy.Setting[string]   `json:"advertise" pattern:"^[^\\s,/]+:PORT(,[^\\s,/]+:PORT)*$" like:"gw.example.com:7422" by:"gateway" doc:"Where nodes connect to, as HOST:PORT; several are separated by commas. Without any: by the names and addresses of this machine."`
	SSH       policy.Setting[[]string] `json:"ssh" item:"^([A-Za-z0-9_][A-Za-z0-9_.+%-]*@)?([A-Za-z0-9_][A-Za-z0-9_.+%-]*|\\[[A-Za-z0-9:.%]+\\])(:PORT)?$" like:"ci@build1:2222" by:"gateway" doc:"Hosts that commands may go to by SSH, as HOST, USER@HOST or USER@HOST:PORT: the node ssh:HOST. Each is meant to the letter. Without a list: none."`
}

// NATS is a message server that is there.
type NATS struct {
	URL    policy.Setting[string] `json:"url" pattern:"^(tls|wss|nats|ws)://[^\\s,/@]+(,(tls|wss|nats|ws)://[^\\s,/@]+)*$" like:"tls://nats.example.com:4222" by:"gateway" doc:"A NATS server for nodes, in place of the gateway's own; several of a cluster are separated by commas. Without TLS on this machine only."`
	Creds  policy.Setting[string] `json:"creds" pattern:"^(/|~/|[A-Za-z]:[/\\\\])" like:"/etc/corral/nats.creds" by:"gateway" doc:"File with the gateway's NATS credentials or the seed of its nkey, absolute or beginning with ~/."`
	Cert   policy.Setting[string] `json:"cert" pattern:"^[0-9a-fA-F]{64}$" like:"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" by:"gateway" doc:"SHA-256 of the server's certificate, in hexadecimal. Without it: a certificate that the gateway and the nodes trust."`
	Shared policy.Setting[bool]   `json:"shared" default:"false" by:"gateway" doc:"Whether the server's JetStream keeps the registry of nodes and the approvals, for several gateways that have the same nodes/gateway.seed."`
}

// Gateway is where a gateway listens.
type Gateway struct {
	Listen  policy.Setting[string]   `json:"listen" pattern:"^[^\\s]+:PORT$" like:"127.0.0.1:7777" by:"gateway" doc:"Address and port to listen on beside the socket, unless --listen says another; beyond the loopback interface only with tls and at least one key (corral keys create). Without one: none. Read when the gateway starts, as all below."`
	TLS     TLS                      `json:"tls" doc:"The certificate of the gateway, for what it listens on over TCP. Without one there is no TLS."`
	Domain  policy.Setting[string]   `json:"domain" pattern:"^(https?://)?[A-Za-z0-9][A-Za-z0-9.-]*(:PORT)?$" like:"sandboxes.example.com" by:"gateway" doc:"Domain below which ports of sandboxes have host names, PORT-SANDBOX.DOMAIN, which have to lead here; best a domain of its own, since pages of sandboxes are served below it. With http:// before it where there is no TLS, and a port where browsers need one: http://localhost:7777. Without one: ports have no host names."`
	Socket  policy.Setting[string]   `json:"socket" pattern:"^(/|~/|[A-Za-z]:[/\\\\])" like:"/run/corral/gateway.sock" by:"gateway" doc:"A socket to listen on beside gateway.sock in the state directory, absolute or beginning with ~/; only this user can open it."`
	Hosts   policy.Setting[[]string] `json:"hosts" item:"^[^\\s/:]+$" like:"corral.example" by:"gateway" doc:"Names under which requests over TCP may address the gateway, beside the loopback ones."`
	E2B     E2B                      `json:"e2b" doc:"What clients of E2B (its SDKs and its command line) are served: see docs/how-to/e2b.md."`
	Origins policy.Setting[[]string] `json:"origins" item:"^https?://[^\\s/]+$" like:"https://pages.example" by:"gateway" doc:"Web origins whose pages may call the gateway."`
}

// TLS is a gateway's certificate.
type TLS struct {
	Cert policy.Setting[string] `json:"cert" pattern:"^(/|~/|[A-Za-z]:[/\\\\])" like:"/etc/corral/fullchain.pem" by:"gateway" doc:"File with the certificate and those that signed it, PEM, absolute or beginning with ~/. It is read anew when it changes."`
	Key  policy.Setting[string] `json:"key" pattern:"^(/|~/|[A-Za-z]:[/\\\\])" like:"/etc/corral/privkey.pem" by:"gateway" doc:"File with its private key, PEM."`
	Self policy.Setting[bool]   `json:"self" default:"false" by:"gateway" doc:"A certificate of the gateway's own, in the state directory, in place of cert and key. Clients know it by its fingerprint: corral login."`
}

// DefaultE2BAgent is whose the sandboxes of E2B's clients are without E2B.Agent.
const DefaultE2BAgent = "e2b"

// DefaultE2BSandboxes is the default of E2B.Sandboxes.
const DefaultE2BSandboxes = 100

// E2B is what clients of E2B are served.
type E2B struct {
	Listen    policy.Setting[string]   `json:"listen" pattern:"^[^\\s]+:PORT$" like:"127.0.0.1:3000" by:"gateway" doc:"Address and port to listen on for clients of E2B, with the TLS of the gateway; beyond the loopback interface only with tls and at least one key. Without one: none. Read when the gateway starts."`
	Agent     policy.Setting[string]   `json:"agent" pattern:"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$" default:"e2b" like:"e2b" by:"gateway" doc:"The agent that owns the sandboxes of a key that is for several agents; its sandbox settings apply to them."`
	Templates policy.Setting[[]string] `json:"templates" item:"^[A-Za-z0-9][A-Za-z0-9_./:-]*=[^\\s]+$" like:"code=registry.example/code:1" form:"NAME=IMAGE" by:"gateway" doc:"Templates, as NAME=IMAGE. base is there in any case: without an image of its own it has that of the agent (sandbox.image). Clients can build templates from these, and from no other image: NAME may be what they call the image, such as python:3.12."`
	Pool      policy.Setting[int]      `json:"pool" default:"0" min:"0" max:"100" by:"gateway" doc:"How many containers are kept ready for new sandboxes of the template base, by the settings of gateway.e2b.agent."`
	Sandboxes policy.Setting[int]      `json:"sandboxes" default:"100" min:"1" max:"10000" by:"gateway" doc:"How many sandboxes clients may have at a time for one agent, paused ones counted."`
	Root      policy.Setting[bool]     `json:"root" default:"false" by:"gateway" doc:"A client that names the user root gets the sandbox's own user, with no more rights. Without this it is an error, unless commands are root there (sandbox.root)."`
}

// Node is what a machine that is a node lets gateways do.
type Node struct {
	Approvals   policy.Setting[Approver] `json:"approvals" default:"gateway" by:"node" doc:"Who approves commands of gateways that need it by this machine's policy: the operators of the gateway, or with local only those of this machine. Allow-always of a gateway is remembered in this machine's approvals file, and with local is refused."`
	Directories policy.Setting[[]string] `json:"directories" item:"^(/|~/)" like:"/srv/builds" by:"node" doc:"Directories in which commands of gateways may work, and below them, symbolic links followed; a leading ~/ is the home directory. Without a list: all. What a command then does elsewhere is not limited by it."`
	Ports       policy.Setting[[]string] `json:"ports" item:"^[1-9][0-9]{0,4}(-[1-9][0-9]{0,4})?$" like:"3000-3099" form:"PORT or FIRST-LAST" by:"node" doc:"TCP ports of this machine's loopback interface that gateways may connect to, as PORT or FIRST-LAST, on behalf of agents whose commands run on the machine. Without a list: none. Of an agent whose commands run in a sandbox here, all ports of that sandbox can be reached, and none of the machine's."`
}
