package programs

import (
	"strings"
	"sync"
)

// An interpreter runs code from a file, from its arguments or from standard input. The
// table answers three questions: is there code in the arguments (InlineCode), is code
// loaded beside the script (Carrier), and which file is the script (ScriptOperand).
type interpreter struct {
	options string // all of them; see newGrammar
	code    string // options whose value is code
	loads   string // options that load, or look for, further code
	ends    string // options that end the options
	module  string // options that name code in another way than by a file
	file    string // options that name the file
	idle    string // options with which it runs nothing
	program bool   // the first operand is code, unless there is a file
	permute bool   // options are found behind operands too

	grammar *grammar
}

const jsOptions = "e,eval: p,print? -pe: c,check i,interactive h,help v,version r,require: import: loader,experimental-loader: C,conditions: " +
	"input-type: env-file: env-file-if-exists: inspect? inspect-brk? inspect-wait? watch watch-path: test run: openssl-config: icu-data-dir: " +
	"no-warnings no-deprecation trace-warnings trace-deprecation trace-uncaught throw-deprecation pending-deprecation " +
	"enable-source-maps preserve-symlinks preserve-symlinks-main experimental-vm-modules experimental-strip-types no-experimental-strip-types " +
	"experimental-transform-types max-old-space-size: max-http-header-size: stack-size: stack-trace-limit: unhandled-rejections: dns-result-order: disable-warning: title: " +
	"expose-gc jitless no-addons frozen-intrinsics use-system-ca use-openssl-ca use-bundled-ca"

// interpreters are the interpreters by name, and by name without a version. With an option
// in no list, the script is not known; that is the only consequence.
var interpreters = sync.OnceValue(func() map[string]*interpreter {
	table := map[string]*interpreter{}
	for names, in := range map[string]*interpreter{
		"python pythonw pypy": {code: "c", loads: "i", ends: "c m", module: "m", idle: "h V help help-env help-xoptions help-all version",
			options: "c: m: b B d E h,? i I O P q s S u v V x R W: X: check-hash-based-pycs: help help-env help-xoptions help-all version"},
		"node nodejs":                           {code: "e p pe", loads: "r import loader env-file env-file-if-exists openssl-config inspect inspect-brk inspect-wait experimental-config-file experimental-default-config-file snapshot-blob build-snapshot experimental-policy test-reporter test-global-setup experimental-sea-config build-sea entry-url run", module: "test run i watch", idle: "h v", options: jsOptions + " test-reporter: test-global-setup,experimental-test-global-setup: experimental-sea-config: build-sea: entry-url,experimental-entry-url experimental-config-file: experimental-default-config-file snapshot-blob: build-snapshot experimental-policy:"},
		"tsx ts-node jiti vite-node swc-node":   {code: "e p pe", loads: "r import loader env-file tsconfig P", module: "test watch i config", idle: "h v", options: jsOptions + " tsconfig: P,project: T,transpile-only w,watch config: esm"},
		"bun":                                   {code: "e p pe", loads: "r import preload env-file c,config", module: "watch hot test i filter cwd", idle: "h v revision", options: jsOptions + " preload: hot silent b,bun revision cwd: config: filter: smol install: no-install"},
		"deno":                                  {code: "e p pe eval", loads: "import-map preload c r,reload require import", module: "watch", idle: "h V version help", options: "e,eval: p,print A,allow-all R,allow-read? W,allow-write? N,allow-net? E,allow-env? S,allow-sys? allow-run? allow-ffi? allow-import? deny-read? deny-write? deny-net? deny-env? deny-run? no-prompt no-check q,quiet no-lock lock? import-map: preload: require: import: c,config: r,reload? h,help V,version L,log-level: no-remote cached-only unstable seed: v8-flags? node-modules-dir? watch? check? ext: location: no-npm no-config frozen?"},
		"ruby jruby":                            {code: "e", loads: "r I x C S", idle: "version help copyright", options: "e: r: I: x? C,X: S 0% a c d,debug E,encoding: external-encoding: internal-encoding: F: h,help i? K: l n p s T% U v verbose w W? y disable: enable: jit? yjit copyright version"},
		"perl":                                  {code: "e E", loads: "M m I d x S n p", idle: "v V h", options: "0% a C? c d D? e: E: f F: i? I: l% m: M: n p s S t T u U v V? w W x? X h g"},
		"php php-cgi":                           {code: "r B R E run process-begin process-code process-end", loads: "d c z S t define", file: "f", module: "a F", idle: "v h m i version help ini", options: "a b: B,process-begin: c,php-ini: d,define: E,process-end: e F,process-file: f,file: h,help H i l m n q R,process-code: r,run: S,server: s t,docroot: v,version w z,zend-extension: ini"},
		"lua luajit texlua luajittex":           {code: "e", loads: "l j O i", module: "i", options: "e: l: i v W E j: O? b"},
		"osascript":                             {code: "e", loads: "l", module: "i", options: "e: l: i s:"},
		"rscript":                               {code: "e", loads: "default-packages", idle: "version help", options: "e: verbose default-packages: version help vanilla no-environ no-site-file no-init-file"},
		"r":                                     {code: "e", module: "interactive no-readline g d", file: "f", idle: "version help", options: "e: f,file: slave s,no-echo q,quiet,silent vanilla no-save save no-restore no-environ no-site-file no-init-file interactive args g,gui: d,debugger: version help"},
		"julia":                                 {code: "e E", loads: "L J project startup-file i", module: "i", idle: "v h", options: "e,eval: E,print: L,load: J,sysimage: project? startup-file: i q,quiet t,threads: p,procs: O,optimize? v,version h,help"},
		"guile":                                 {code: "c", loads: "l L e x C", module: "ds", file: "s", idle: "v h", options: "c: l: L: C: x: e: s: q no-auto-compile v,version h,help"},
		"racket":                                {code: "e", loads: "t l r f p k m i", options: "e,eval: t,require: l,lib: f,load: r,script: u i,repl n"},
		"sbcl clisp ecl":                        {code: "eval x", loads: "load userinit sysinit core i", file: "script", options: "eval: load: userinit: sysinit: core: script: noinform non-interactive no-userinit no-sysinit x: i: q"},
		"groovy scala kotlin clojure clj":       {code: "e", loads: "cp classpath i", options: "e: cp,-cp: classpath,-classpath: i:"},
		"java":                                  {module: "cp classpath p m javaagent agentlib agentpath xbootclasspath", loads: "javaagent agentlib agentpath xbootclasspath", file: "jar", idle: "version help", options: "-cp,-classpath,class-path: -jar: p,module-path: m,module: -javaagent: -agentlib: -agentpath: -version -help"},
		"elixir":                                {code: "e eval rpc-eval", loads: "r pr pa pz S", options: "e: eval: r: pr,-pr: pa,-pa: pz,-pz: S: v,version h,help"},
		"erl":                                   {code: "eval run s", loads: "pa pz config", options: "-eval: -run: s: -pa: -pz: -noshell -noinput -config:"},
		"runghc runhaskell ghc ghci":            {code: "e", module: "x", options: "e: x: f: i: v"},
		"swipl":                                 {code: "g t", loads: "l s f x", options: "g: t: l: s: f: x: q"},
		"tclsh wish":                            {options: ""},
		"expect":                                {code: "c", options: "c: b d D: f: i n N v", file: "f b"},
		"awk gawk mawk nawk original-awk goawk": {code: "e", loads: "l i", file: "f E", program: true, idle: "V h version help", options: "F,field-separator: v,assign: f,file: e,source: i,include: l,load: E,exec: b,characters-as-bytes c,traditional C,copyright d? D? g,gen-pot h,help I,trace k,csv L? M,bignum n,non-decimal-data N,use-lc-numeric o? O,optimize p? P,posix r,re-interval S,sandbox s,no-optimize t,lint-old V,version W: "},
		"sed gsed ssed":                         {code: "e", file: "f", program: true, permute: true, idle: "version help", options: "e,expression: f,file: E,r,regexp-extended n,quiet,silent i,in-place? s,separate u,unbuffered z,null-data l,line-length: b,binary posix debug sandbox follow-symlinks a version help"},
		"make gmake bmake":                      {code: "f eval E", permute: true, options: "f,file,makefile: eval: E: C,directory: I,include-dir: j,jobs? l,load-average,max-load? o,old-file,assume-old: W,what-if,new-file,assume-new: O,output-sync? B,always-make d debug? e,environment-overrides i,ignore-errors k,keep-going L n,just-print,dry-run,recon p,print-data-base q,question R,no-builtin-variables r,no-builtin-rules S,no-keep-going,stop s,silent,quiet t,touch trace v,version w,print-directory no-print-directory warn-undefined-variables no-silent"},
	} {
		in.grammar = newGrammar(in.options)
		for name := range strings.FieldsSeq(names) {
			table[name] = in
		}
	}
	return table
})

// IsInterpreter reports whether the purpose of a program is to run code or other
// programs. name may be a path, or a pattern that ends in the name.
func IsInterpreter(name string) bool {
	name = NormalizeName(name)
	if _, ok := named(interpreters(), name); ok {
		return true
	}
	switch name {
	case "find", "gfind", "xargs", "gxargs", "jq", "gojq", "jaq":
		return true
	}
	return isWrapper(name) || IsShell(name)
}
