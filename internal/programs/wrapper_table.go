package programs

import (
	"strings"
	"sync"
)

// The reasons why a wrapper is refused. Its inner command is still checked against deny
// rules.
const (
	asOther  = "runs it as another user"
	detached = "runs it apart from the command that is watched"
	changed  = "runs it with other rights or limits"
	elsewise = "runs it in another place, where names stand for other files"
	hooked   = "loads code into what it runs"
	fetched  = "finds the program by rules of its own, or fetches it"
	shelled  = "has a shell read the command once more"
	someTerm = "runs it on a terminal of its own"
)

// wrappers are the programs that run another program, named in their arguments. There
// are three kinds:
//
//   - transparent ones change only priority, timing and the like: only the program
//     that they run is decided on;
//   - owned ones do something by themselves, so they have to be allowed as well;
//   - refused ones run it as another user, in another place or in another way than
//     its name says: a rule on that program never allows them.
//
// Every option is listed: with an unknown one, the use is refused. A name of two words is
// a subcommand.
func wrappers() map[string]*wrapper {
	wrapperTableMade.Do(makeWrappers) // no initial value: it refers to itself, as env -S is peeled
	return wrapperTable
}

var (
	wrapperTable     = map[string]*wrapper{}
	wrapperTableMade sync.Once
)

func makeWrappers() {
	for names, w := range map[string]*wrapper{
		"nice gnice":        {options: "n,adjustment: #"},
		"nohup gnohup":      {},
		"timeout gtimeout":  {options: "k,kill-after: s,signal: v,verbose f,foreground p,preserve-status", form: timeoutForm},
		"stdbuf gstdbuf":    {options: "i,input: o,output: e,error:"},
		"time gtime":        {options: "p,portability v,verbose q,quiet f,format: a,append o,output:", effect: "o a"},
		"caffeinate":        {options: "d i m s u t: w:"},
		"arch":              {options: "arch,-arch: 32 64 c,-c d,-d: e,-e: h -arm64 -arm64e -x86_64 -x86_64h -i386", effect: "c d e", form: archForm},
		"env genv":          {options: "i,ignore-environment u,unset: C,chdir: S,split-string: 0,null v,debug", form: envForm},
		"command":           {options: "p v V", idle: "v V", effect: "p"},
		"builtin":           {},
		"exec":              {options: "a: c l", effect: "a c l"},
		"xargs gxargs":      {use: owned, form: xargsForm, options: "0,null a,arg-file: d,delimiter: E: e,eof? I: i,replace? L,max-lines: l? n,max-args: o,open-tty P,max-procs: p,interactive process-slot-var: r,no-run-if-empty s,max-chars: show-limits t,verbose x,exit J: R: S:", effect: "process-slot-var"},
		"find gfind":        {use: owned, form: findForm, language: true},
		"sandbox-exec":      {use: owned, options: "f: n: p: D:"},
		"flock":             {use: owned, form: flockForm, options: "s,shared x,e,exclusive u,unlock n,nb,nonblock w,wait,timeout: E,conflict-exit-code: o,close F,no-fork fcntl verbose"},
		"choom":             {use: owned, options: "n,adjust: p,pid:", idle: "p"},
		"unbuffer":          {use: owned, options: "p"},
		"strace":            {use: owned, options: "f c C e: E: o: s: t tt ttt T v x xx y yy q qq i k n r w z Z p: P: O: S: u: a: b: A D DD DDD I: ff", effect: "E o p u D"},
		"ltrace":            {use: owned, options: "f c C e: o: s: t T S i n: r p: u: l: x: a: D: F: L", effect: "o p u F"},
		"watch":             {use: owned, form: watchForm, options: "b,beep c,color C,no-color d,differences? e,errexit f,follow g,chgexit q,equexit: n,interval: p,precise r,no-rerun s,shotsdir: t,no-title w,no-wrap x,exec", effect: "s"},
		"eval":              {form: evalForm, language: true},
		"trap":              {options: "l p P", idle: "l p P", form: trapForm},
		"busybox toybox":    {use: refused, reason: "is many programs in one", form: multiplexerForm},
		"sudo":              {use: refused, reason: asOther, form: envWordsForm, alone: "asks for a password", options: "A,askpass b,background B,bell C,close-from: D,chdir: E,preserve-env? e,edit g,group: H,set-home h,host: i,login k,reset-timestamp K,remove-timestamp l,list N,no-update n,non-interactive P,preserve-groups p,prompt: R,chroot: r,role: S,stdin s,shell T,command-timeout: t,type: U,other-user: u,user: V,version v,validate #"},
		"doas":              {use: refused, reason: asOther, alone: "runs a shell", options: "a: C: L n s u:"},
		"su":                {use: refused, reason: asOther, form: suForm, options: suOptions},
		"runuser":           {use: refused, reason: asOther, form: suForm, options: suOptions + " u,user:"},
		"pkexec":            {use: refused, reason: asOther, alone: "runs a shell", options: "user: disable-internal-agent keep-cwd"},
		"setsid":            {use: refused, reason: detached, options: "c,ctty f,fork w,wait"},
		"systemd-run":       {use: refused, reason: detached, options: "user system scope P,pipe t,pty q,quiet G,collect r,remain-after-exit wait same-dir d no-ask-password no-block u,unit: p,property: E,setenv: slice: uid: gid: nice: working-directory: S,shell description: H,host: M,machine:"},
		"start-stop-daemon": {use: refused, reason: detached, options: "S,start K,stop b,background m,make-pidfile o,oknodo q,quiet t,test v,verbose C,no-close p,pidfile: x,exec: a,startas: n,name: u,user: c,chuid: g,group: d,chdir: r,chroot: N,nicelevel:", form: daemonForm},
		"chrt":              {use: refused, reason: changed, operands: 1, options: "b,batch d,deadline f,fifo i,idle o,other r,rr R,reset-on-fork T,sched-runtime: P,sched-period: D,sched-deadline: a,all-tasks m,max p,pid v,verbose", idle: "m p"},
		"ionice":            {use: refused, reason: changed, options: "c,class: n,classdata: p,pid P,pgid t,ignore u,uid", idle: "p P u"},
		"taskset":           {use: refused, reason: changed, operands: 1, options: "a,all-tasks p,pid c,cpu-list", idle: "p"},
		"prlimit":           {use: refused, reason: changed, options: "p,pid: o,output: noheadings raw verbose c,core? d,data? e,nice? f,fsize? i,sigpending? l,memlock? m,rss? n,nofile? q,msgqueue? r,rtprio? s,stack? t,cpu? u,nproc? v,as? x,locks? y,rttime?", idle: "p"},
		"cpulimit":          {use: refused, reason: changed, options: "l,limit: p,pid: e,exe: P,path: c,cpu: b,background f,foreground i,include-children k,kill m,monitor-forks q,quiet r,restore s,signal: v,verbose z,lazy", idle: "p e P"},
		"setpriv":           {use: refused, reason: changed, options: "d,dump nnp,no-new-privs ambient-caps: inh-caps: bounding-set: ruid: euid: rgid: egid: reuid: regid: clear-groups keep-groups init-groups groups: list-caps securebits: pdeathsig: selinux-label: apparmor-profile: reset-env", idle: "d list-caps"},
		"capsh":             {use: refused, reason: changed},
		"chroot gchroot":    {use: refused, reason: elsewise, operands: 1, alone: "runs a shell", options: "groups: userspec: skip-chdir"},
		"unshare":           {use: refused, reason: elsewise, alone: "runs a shell", options: "m,mount? u,uts? i,ipc? n,net? p,pid? U,user? C,cgroup? T,time? f,fork map-user: map-group: r,map-root-user c,map-current-user map-auto map-users: map-groups: kill-child? mount-proc? propagation: setgroups: keep-caps R,root: w,wd: S,setuid: G,setgid: monotonic: boottime:"},
		"nsenter":           {use: refused, reason: elsewise, alone: "runs a shell", options: "a,all t,target: m,mount? u,uts? i,ipc? n,net? p,pid? C,cgroup? U,user? T,time? S,setuid: G,setgid: preserve-credentials r,root? w,wd? W,wdns: F,no-fork Z,follow-context"},
		"setarch linux32 linux64 i386 x86_64 uname26": {use: refused, reason: changed, form: setarchForm, options: "B,32bit F,fdpic-funcptrs I,short-inode L,addr-compat-layout R,addr-no-randomize S,whole-seconds T,sticky-timeouts X,read-implies-exec Z,mmap-page-zero 3,3gb 4gb uname-2.6 v,verbose list", idle: "list"},
		"bwrap firejail proot":                        {use: refused, reason: elsewise},
		"faketime":                                    {use: refused, reason: hooked, operands: 1, options: "m f p: date-prog: exclude-monotonic"},
		"fakeroot fakechroot":                         {use: refused, reason: hooked, alone: "runs a shell", options: "l,lib: f,faked: s: i: u,unknown-is-real b,fd-base:"},
		"ld.so":                                       {use: refused, reason: hooked, options: "list verify inhibit-cache library-path: glibc-hwcaps-prepend: glibc-hwcaps-mask: inhibit-rpath: audit: preload: argv0: list-tunables list-diagnostics"},
		"valgrind":                                    {use: refused, reason: hooked},
		"gdb lldb rr":                                 {use: refused, reason: "gives a prompt from which anything runs", options: "args,-args q,-q,quiet,-quiet n,-n,-nx batch,-batch nh,-nh"},
		"perf stat":                                   {use: refused, reason: hooked, options: "a d e,event: p,pid: r,repeat: o,output: x: v"},
		"perf record":                                 {use: refused, reason: hooked, options: "a g e,event: p,pid: F,freq: o,output: call-graph: v"},
		"perf trace":                                  {use: refused, reason: hooked},
		"xcrun":                                       {use: refused, reason: fetched, options: "sdk,-sdk: toolchain,-toolchain: v,-v,verbose l,-l,log n,-n,no-cache k,-k,kill-cache r,-r,run f,-f,find"},
		"direnv exec":                                 {use: refused, reason: hooked, operands: 1},
		"bundle exec":                                 {use: refused, reason: fetched, options: "keep-file-descriptors gemfile:"},
		"npx bunx":                                    {use: refused, reason: fetched, form: packageForm, options: "y,yes no no-install q,quiet p,package: c,call: w,workspace: ignore-existing bun b"},
		"pipx run":                                    {use: refused, reason: fetched, options: "spec: no-cache pypackages python: pip-args: verbose q,quiet"},
		"uv run":                                      {use: refused, reason: fetched, options: "m,module s,script with: p,python: extra: group: isolated no-project frozen locked no-sync q,quiet v,verbose directory: project: env-file: all-extras no-dev"},
		"uvx":                                         {use: refused, reason: fetched, options: "from: with: p,python: q,quiet v,verbose isolated"},
		"poetry run":                                  {use: refused, reason: fetched},
		"pipenv run":                                  {use: refused, reason: fetched},
		"conda run":                                   {use: refused, reason: fetched, options: "n,name: p,prefix: no-capture-output live-stream v,verbose cwd:"},
		"npm exec":                                    {use: refused, reason: fetched, form: packageForm, options: "y,yes p,package: c,call: w,workspace: workspaces q,quiet"},
		"npm x":                                       {use: refused, reason: fetched, form: packageForm, options: "y,yes p,package: c,call: w,workspace: workspaces q,quiet"},
		"pnpm exec":                                   {use: refused, reason: fetched, options: "r,recursive c,shell-mode parallel resume-from:"},
		"pnpm dlx":                                    {use: refused, reason: fetched, options: "package: allow-build: s,silent c,shell-mode"},
		"yarn exec":                                   {use: refused, reason: fetched},
		"yarn dlx":                                    {use: refused, reason: fetched, options: "p,package: q,quiet"},
		"bun x":                                       {use: refused, reason: fetched, options: "bun b"},
		"rbenv exec":                                  {use: refused, reason: fetched},
		"pyenv exec":                                  {use: refused, reason: fetched},
		"asdf exec":                                   {use: refused, reason: fetched},
		"mise exec":                                   {use: refused, reason: fetched},
		"mise x":                                      {use: refused, reason: fetched},
		"nix-shell":                                   {use: refused, reason: fetched, form: runTextForm, alone: "runs a shell", options: "run: command: p,packages pure A,attr: I: keep: E,expr: quiet"},
		"ip netns":                                    {use: refused, reason: elsewise, form: netnsForm},
		"parallel sem":                                {use: refused, reason: shelled, form: parallelForm, options: "j,jobs: k,keep-order n,max-args: N: I: X m 0,null a,arg-file: d,delimiter: t,verbose v q,quote r,no-run-if-empty dry-run bar eta halt: timeout: retries: delay: tag group u,ungroup line-buffer lb will-cite colsep: C: L: l: P: id: fg bg"},
		"ssh":                                         {use: refused, reason: "runs a command, or a shell, on another machine", form: sshForm, alone: "logs in to another machine", options: "4 6 A a C f G g K k M N n q s T t V v X x Y y B: b: c: D: E: e: F: I: i: J: L: l: m: O: o: P: p: Q: R: S: W: w:", idle: "V Q G"},
		"script":                                      {use: refused, reason: someTerm, form: scriptForm, alone: "runs a shell", options: "I,log-in: O,log-out: B,log-io: T,log-timing: t,timing? m,logging-format: a,append c,command: e,return f,flush force E,echo: o,output-limit: q,quiet d F: k p r"},
		"rlwrap":                                      {use: refused, reason: someTerm, options: "a,always-readline? A,ansi-colour-aware? c,complete-filenames C,command-name: f,file: H,history-filename: i,case-insensitive n,no-warnings r,remember R,no-children s,histsize: z,filter:"},
		"logsave":                                     {use: refused, reason: "writes what it prints where it is told", operands: 1, options: "a s v"},
		"dbus-run-session":                            {use: refused, reason: detached, options: "config-file: dbus-daemon:"},
		"xvfb-run":                                    {use: refused, reason: detached, options: "a,auto-servernum e,error-file: f,auth-file: n,server-num: l,listen-tcp p,xauth-protocol: s,server-args: w,wait:"},
	} {
		w.grammar = newGrammar(w.options)
		for _, o := range []string{"help", "version"} {
			if w.grammar.long[o] == nil {
				w.grammar.add(o, "")
			}
		}
		w.add(names)
	}
	// tmux, screen and the like run their arguments later as shell text, and have
	// languages of their own: they are carriers.
}

func (w *wrapper) add(names string) {
	// A name of two words is one subcommand, if the second is no program.
	if program, sub, ok := strings.Cut(names, " "); ok && subcommands[program] {
		wrapperTable[program+" "+sub] = w
		return
	}
	for name := range strings.FieldsSeq(names) {
		wrapperTable[name] = w
	}
}

// subcommands are programs with a subcommand that is a wrapper.
var subcommands = map[string]bool{
	"perf": true, "direnv": true, "bundle": true, "pipx": true, "uv": true, "poetry": true, "pipenv": true, "conda": true,
	"npm": true, "pnpm": true, "yarn": true, "bun": true, "rbenv": true, "pyenv": true, "asdf": true, "mise": true, "ip": true,
}

const suOptions = "c,command: session-command: f,fast g,group: G,supp-group: l,login m,p,preserve-environment P,pty s,shell: w,whitelist-environment:"
