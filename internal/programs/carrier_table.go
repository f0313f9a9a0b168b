package programs

// A carrierRow says what options of some programs do. Programs are separated by commas; a
// program of several words is a subcommand. Options are written as newGrammar reads them;
// "*" is every use. A row without a reason lists harmless options with values, so that the
// values are not taken for options.
type carrierRow struct {
	programs string
	options  string
	why      string
}

const (
	runs        = "runs a program"
	loads       = "loads code"
	writes      = "writes where it is told"
	reads       = "reads options or commands from a file"
	prompt      = "gives a prompt from which any program runs"
	later       = "runs commands later, apart from this one"
	within      = "runs a command in a container or on another machine"
	opensEditor = "opens an editor"
	runsCode    = "runs code that is not in a file that it names"
)

// carrierTable lists the options that make ordinary programs carriers, and the programs
// that always are. Git has a table of its own.
var carrierTable = []carrierRow{
	// Archives.
	{"tar,gtar,bsdtar", "to-command: checkpoint-action: I,use-compress-program: rsh-command: rmt-command: F,info-script,new-volume-script:", runs},
	{"tar,gtar,bsdtar", "C,directory: f,file: b,blocking-factor: X,exclude-from: T,files-from: K,starting-file: L,tape-length: N,newer,after-date: V,label: exclude: owner: group: mode: mtime: format: H: strip-components: transform,xform:", ""},
	{"zip", "TT,unzip-command,-TT:", runs},
	{"zip", "T,test", "runs unzip, found on PATH"},
	{"zip", "b: i: n: t: x:", ""},
	{"tar,gtar", "index-file: volno-file: g,listed-incremental:", writes},
	{"cpio", "rsh-command: F,file: I: O:", runs},
	{"ar,nm,ranlib,strip,objcopy,objdump,size,gcc-ar,gcc-nm,gcc-ranlib", "plugin,-plugin:", loads},
	{"jq,gojq", "L,library-path:", loads},
	{"dpkg", "pre-invoke: post-invoke: status-logger:", runs},
	{"dpkg", "i,install unpack configure root: instdir: admindir:", "runs the scripts of the package that it is given"},
	{"dpkg-source", "commit", opensEditor},
	{"dpkg-architecture", "c,command:", runs},
	{"apt,apt-get,aptitude,apt-cache,apt-mark,apt-config,apt-cdrom,apt-ftparchive,apt-key,apt-sortpkgs,apt-extracttemplates", "o,option: c,config-file:", runs},
	{"apt,apt-get,aptitude", "t,target-release: a,host-architecture:", ""},
	{"apt-get source,apt source", "b,build,compile", "runs the rules of the package that it fetches"},
	{"apt edit-sources", "*", opensEditor},
	{"apt changelog,apt-get changelog,aptitude changelog", "*", "runs a pager"},
	{"rpm", "pipe: E,eval: D,define: load: macros: rcfile:", runs},
	{"dnf,yum,zypper,pacman,apk", "c,config: setopt: hookdir: scriptlet:", runs},

	// Text.
	{"sort,gsort", "compress-program:", runs},
	{"sort,gsort", "o,output:", writes},
	{"sort,gsort", "k,key: t,field-separator: S,buffer-size: T,temporary-directory: parallel: batch-size: files0-from: random-source: sort:", ""},
	{"split,gsplit", "filter:", runs},
	{"split,gsplit", "a,suffix-length: b,bytes: C,line-bytes: l,lines: n,number: t,separator: additional-suffix:", ""},
	{"rg,ripgrep", "pre: hostname-bin:", runs},
	{"rg,ripgrep", "z,search-zip", "runs programs that it finds on PATH"},
	{"rg,ripgrep", "e,regexp: f,file: g,glob: iglob: A,after-context: B,before-context: C,context: m,max-count: t,type: T,type-not: r,replace: j,threads: d,max-depth: M,max-columns: E,encoding: sort: sortr: color: colors: pre-glob: ignore-file: type-add: type-clear: max-filesize: engine: path-separator: context-separator: field-match-separator: field-context-separator:", ""},
	{"ag,ack,ucg", "pager: ackrc:", runs},
	{"fd,fdfind", "x,exec: X,exec-batch:", runs},
	{"fd,fdfind", "d,max-depth: t,type: e,extension: E,exclude: c,color: j,threads: S,size: o,owner: min-depth: exact-depth: changed-within: changed-before: base-directory: search-path: ignore-file: max-results: path-separator: format: batch-size:", ""},
	{"find,gfind", "-delete", "deletes what it finds"},
	{"find,gfind", "-fprint: -fprint0: -fprintf: -fls:", writes},
	{"csplit", "f,prefix:", writes},
	{"yq", "s,split-exp: i,inplace", writes},
	{"diff", "l,paginate", "runs pr, by its name"},
	{"sdiff,diff3", "diff-program: o,output:", runs},
	{"patch", "g,get: e,ed o,output:", "runs a program, or writes where it is told"},
	{"iconv", "o,output:", writes},
	{"shuf,gshuf", "o,output:", writes},
	{"xxd", "r,revert", writes},
	{"dos2unix,unix2dos", "n,newfile", writes},
	{"file", "C,compile", writes},
	{"file", "e,exclude: exclude-quiet: f,files-from: F,separator: m,magic-file: P,parameter:", ""},
	{"file", "z,uncompress Z,uncompress-noreport", "runs programs that it finds on PATH"},
	{"m4", "*", runsCode},
	{"troff,groff,nroff", "U,unsafe-mode: m: M: F: I: P: L:", loads},
	{"pandoc", "F,filter: L,lua-filter: pdf-engine: pdf-engine-opt: d,defaults: o,output: extract-media:", "runs a program, or writes where it is told"},
	{"tex,latex,pdftex,pdflatex,xelatex,lualatex,luatex", "shell-escape,-shell-escape enable-write18,-enable-write18 output-directory,-output-directory: fmt,-fmt:", "lets the document run programs, or writes where it is told"},
	{"ghostscript,gs", "*", "reads a language that can write files and run programs"},
	{"gnuplot,octave,maxima,dc", "*", "reads a language in which programs can be run or files be read"},

	// Editors, pagers, and other programs with a prompt.
	{"editor,sensible-editor,select-editor,sudoedit,vipw,vigr,visudo,rview,gview,rgview,rgvim,gvimdiff,evim,eview,vimtutor,xxdiff,meld,cscope", "*", prompt},
	{"pager,sensible-pager,zless,zmore,bzless,bzmore,xzless,xzmore,lzless,lzmore,zstdless,batcat,bat", "*", prompt},
	{"vi,vim,nvim,view,gvim,vimdiff,rvim,ex,ed,red,nano,pico,emacs,emacsclient,joe,jed,mcedit,micro,kak,hx,helix,mg,ne,tilde", "*", prompt},
	{"less,more,most,pg,lv", "*", prompt},
	{"man", "P,pager: H,html? X? l,local-file C,config-file: T,troff-device? t,troff Z,ditroff p,preprocessor: B,browser:", runs},
	{"man", "M,manpath: S,s,sections: L,locale: m,systems: e,extension: r,prompt: E,encoding: R,recode:", ""},
	{"info,mc,ranger,nnn,lf,vifm,tig,gitui,lazygit,htop,top,btop,fzf,dialog,sc,mutt,neomutt,alpine,lynx,w3m,links,elinks", "*", prompt},
	{"mail,mailx,telnet,ftp,sftp,lftp,tftp", "*", prompt},
	{"gdb,lldb,rr,jdb,pdb,ipython,ipython3,irb,pry,jshell,ghci", "*", prompt},
	{"tmux,screen,zellij,dtach,abduco,expect,dvtm", "*", prompt},
	{"scp,sshfs", "S: o: F: D: J:", runs},
	{"scp,sshfs", "c: i: l: P: X:", ""},
	{"ssh", "o: F: J: I: E: S:", "can run a program on this machine, or write to it"},
	{"ssh-keygen", "D: w: P: -Y? s:", loads},
	{"ssh-add", "s: S:", loads},
	{"ssh-agent,ssh-copy-id,autossh,mosh,dropbear,dbclient,sshpass", "*", runs},

	{"gpg-agent,gpg-connect-agent,gpgconf,gpgtar,dirmngr,scdaemon,pinentry", "*", runs},

	// The network.
	{"rsync", "e,rsh: rsync-path: config: daemon copy-as: early-input:", runs},
	{"rsync", "password-file: log-file: write-batch: only-write-batch: T,temp-dir: partial-dir: backup-dir:", writes},
	{"rsync", "M,remote-option:", "hands options to a program on another machine"},
	{"rsync", "f,filter: exclude: include: exclude-from: include-from: files-from: B,block-size: chmod: chown: bwlimit: timeout: port: max-size: min-size: info: debug: suffix:", ""},
	{"curl", "o,output: O,remote-name remote-name-all J,remote-header-name output-dir: c,cookie-jar: D,dump-header: trace: trace-ascii: libcurl: etag-save: stderr: hsts: alt-svc: ssl-sessions: trace-config:", writes},
	{"curl", "K,config:", reads},
	{"curl", "engine: proxy-header-file:", loads},
	{"curl", "T,upload-file: F,form: d,data: data-binary: data-raw: data-urlencode: json: A,user-agent: b,cookie: C,continue-at: E,cert: e,referer: H,header: m,max-time: P,ftp-port: Q,quote: r,range: t,telnet-option: u,user: U,proxy-user: w,write-out: x,proxy: X,request: y,speed-time: Y,speed-limit: z,time-cond: connect-timeout: retry: resolve: url: cacert: capath: key: max-redirs: interface: proto: limit-rate:", ""},
	{"wget,wget2", "use-askpass: e,execute: config: i,input-file: post-file: body-file:", "runs a program, or reads options from a file"},
	{"wget,wget2", "O,output-document: o,output-file: a,append-output: P,directory-prefix: save-cookies: warc-file: warc-tempdir: hsts-file: rejected-log:", writes},
	{"wget,wget2", "A,accept: B,base: D,domains: I,include-directories: l,level: Q,quota: R,reject: t,tries: T,timeout: U,user-agent: w,wait: X,exclude-directories: header: user: password: post-data: method:", ""},
	{"aria2c", "on-bt-download-complete: on-download-complete: on-download-error: on-download-pause: on-download-start: on-download-stop: conf-path: o,out: d,dir: i,input-file:", "runs a program, or writes where it is told"},
	{"nc,ncat,netcat,nc.openbsd,nc.traditional", "e,exec: c,sh-exec: lua-exec: o,output: x,hex-dump: U,unixsock", runs},
	{"nc,ncat,netcat,nc.openbsd,nc.traditional", "p,source-port: s,source: w,wait: i: q: X: I: O: P: T: V: W: m,max-conns:", ""},
	{"nmap", "script,-script: script-args,-script-args: script-args-file: datadir: interactive iL,-iL: oN,-oN: oX,-oX: oG,-oG: oA,-oA: oS,-oS:", "runs scripts, or writes where it is told"},
	{"tcpdump,dumpcap,tshark", "z: w: X: b: lua-script:", "runs a program, or writes where it is told"},
	{"tcpdump,dumpcap,tshark", "c: C: E: F: G: i: j: m: M: r: s: T: y: Z: V: W: f: Y:", ""},
	{"openssl", "-pre: -post: -keyout: -sess_out: -keylogfile: -msgfile: -engine: -provider: -provider-path: -out: -config: -rand: -writerand: -CAfile: -ssl_client_engine: -engine_impl", "loads code, or writes where it is told"},
	{"openssl engine", "*", loads},
	{"socat,socks,openvpn,pppd,chat,inetd,xinetd,stunnel", "*", "can run any program that its arguments name"},
	{"gpg,gpg2,gpgv,gpgsm", "homedir: exec-path: photo-viewer: agent-program: dirmngr-program: keyserver-options: o,output: options: log-file: status-file: logger-file: load-extension:", "runs a program, or writes where it is told"},
	{"ip", "b,batch,-b,-batch:", reads},
	{"ip", "n,netns,-n,-netns: f,family,-f,-family:", ""},
	{"tc,bridge,devlink,rdma,dcb", "b,batch,-b,-batch:", reads},
	{"tc exec", "*", runs},
	{"iptables,ip6tables,ebtables,arptables,iptables-restore,ip6tables-restore", "M,modprobe:", runs},
	{"modprobe", "C,config: d,dirname: S,set-version:", "loads code, and runs what its configuration names"},
	{"insmod,depmod,kmod", "*", loads},
	{"busctl", "address: H,host: M,machine:", "runs the program that an address names"},
	{"dbus-send,dbus-monitor,gdbus,dbus-daemon,dbus-launch", "address: a: bus: peer: config-file: exit-with-session", "runs the program that an address names"},
	{"loginctl,timedatectl,hostnamectl,localectl,systemd-analyze,networkctl,resolvectl", "H,host: M,machine: root: image:", "acts on another system"},
	{"smbclient", "c,command: E", runs},
	{"dig,host,nslookup", "f: k:", reads},

	// Data bases.
	{"sqlite3,sqlite", "init,-init: cmd,-cmd:", runs},
	{"psql", "c,command: f,file: o,output: L,log-file: v,set,variable: P,pset:", "runs commands that can run programs"},
	{"mysql,mariadb", "e,execute: pager: tee: plugin-dir: init-command: load-data-local-dir: defaults-file: defaults-extra-file: system-command", "runs commands that can run programs"},
	{"mongo,mongosh", "eval: f,file: nodb shell", runsCode},
	{"redis-cli", "eval: x", runsCode},

	// Building. A rule that allows the program trusts the build files.
	{"cmake", "P,-P: C,-C: E,-E: script: toolchain: D,-D: build-and-test:", "runs commands, or a script that it names"},
	{"ctest", "S,script: SP,script-new-process: D: build-and-test: S:", runs},
	{"ninja", "f: t:", "runs what another file says"},
	{"meson,scons,bazel,buck,waf,rake,ant,mvn,gradle", "f,file,buildfile,-buildfile: I,init-script: bazelrc: run_under: e,execute: r,require:", "runs what another file says"},
	{"gcc,g++,cc,c++,clang,clang++,tcc,c89,c99,cpp,gfortran,gccgo,gdc,gnat,lto-dump,clang-cpp", "B,prefix: for-linker: wrapper,-wrapper: fplugin,-fplugin: specs,-specs: load,-load: Xclang,-Xclang: run,-run fuse-ld,-fuse-ld: ccc-gcc-name,-ccc-gcc-name: fpass-plugin,-fpass-plugin: iplugindir,-iplugindir:", "runs a program, or loads code"},
	{"ld,gold,lld", "plugin,-plugin: dynamic-linker:", loads},
	{"go run,go tool", "*", "builds and runs a program"},
	{"npm run,npm run-script,npm rum,npm urn,pnpm run,pnpm run-script,yarn run", "*", "runs a script of the package, by a name of its own"},
	{"go build,go test,go vet,go install,go get,go list,go generate,go clean,go fix", "toolexec,-toolexec: exec,-exec: vettool,-vettool: overlay,-overlay: modfile,-modfile: ldflags,-ldflags: gccgoflags,-gccgoflags:", "runs a program, or writes where it is told"},
	{"go env", "w,-w u,-u", "changes what later commands run"},
	{"cargo", "config: Z:", "can make another program the compiler"},
	{"rustdoc", "C,codegen: Z: test-builder: runtool: runtool-arg: extern: sysroot: o,output:", "can run another program, or write where it is told"},
	{"rustc", "C,codegen: Z: o: linker: extern: sysroot:", "can run another linker, or write where it is told"},
	{"npm", "script-shell: prefix: userconfig: globalconfig: node-options: git: editor: shell: viewer:", runs},
	{"npm explore,npm edit,npm config,npm set,pnpm config,yarn config", "*", "runs a program, or changes what later commands run"},
	{"pnpm,yarn", "script-shell: node-options: use-yarnrc: use: config:", runs},
	{"yarn plugin,yarn node,yarn create,npm init,npm create,pnpm create,bun create", "*", "fetches code and runs it"},
	{"npm pkg,npm set-script,pnpm set", "*", "writes scripts, or changes what later commands run"},
	{"deno task,deno repl,deno jupyter", "*", runsCode},
	{"pip", "global-option: install-option: build-option: C,config-settings: python: i,index-url: extra-index-url: f,find-links: trusted-host:", "fetches code from where it is told and runs it"},
	{"pip config", "*", "changes what later commands run"},
	{"gem,bundle,bundler", "i,install-dir: config-file: e,exec: gemfile: with-opt-dir:", "runs code from where it is told"},
	{"gem exec,bundle console,bundle open,bundle config,gem open", "*", runs},
	{"composer", "d,working-dir:", "runs the scripts of another package"},
	{"composer exec,composer run-script,composer config", "*", runs},

	{"pydoc,cpan,cpanp,instmodsh,perlbug,perlthanks,ptargrep,corepack,debconf,deb-systemd-invoke,invoke-rc.d,service", "*", runsCode},
	{"prove", "e,exec: P: I: M: rc: source: formatter: harness: a,archive: lib blib", runsCode},
	{"perldoc", "M: n: w: I:", loads},
	{"json_pp", "f:", runsCode},
	{"javac,javadoc,jar,jarsigner,keytool,javap,jlink,jmod,jdeps,jpackage,jcmd,jmap,jstack,jps,jstat,jdb,rmiregistry,serialver", "-processor: -processorpath,-processor-path: -Xplugin? -cp,-classpath,-class-path: -providerpath: -provider,-providerclass,-addprovider: -doclet: -docletpath: -plugin-module-path: -p,-module-path:", loads},
	{"msgexec,msgfilter", "*", runs},
	{"msgfmt,msgunfmt", "j,java java2 csharp csharp-resources", "runs a compiler, found on PATH"},

	// The system.
	{"docker run,docker exec,docker container run,docker container exec,docker compose run,docker compose exec,docker create,docker container create,docker service,docker stack,docker plugin", "*", within},
	{"podman,nerdctl,ctr,crictl,lxc,lxc-attach,lxc-execute,incus,machinectl,systemd-nspawn,runc,crun,buildah,distrobox,toolbox", "*", within},
	{"corral exec,corral mcp,corral process,corral attach,corral sandbox", "*", "runs commands by a policy of its own"},
	{"docker", "H,host: c,context: config: tlscacert: tlscert: tlskey:", "talks to another engine"},
	{"docker", "l,log-level:", ""},
	{"kubectl,oc", "kubeconfig: kuberc: s,server: token:", "talks to another cluster, with helpers that the file names"},
	{"kubectl,oc", "f,filename: k,kustomize: n,namespace: context: cluster: user: o,output: l,selector: c,container: request-timeout: v: field-selector: sort-by: type:", ""},
	{"kubectl exec,kubectl run,kubectl debug,kubectl attach,kubectl edit,kubectl plugin,oc exec,oc rsh,oc debug,oc run", "*", within},
	{"systemctl", "H,host: M,machine: root: image:", "acts on another system"},
	{"systemctl", "p,property: t,type: n,lines: o,output: s,signal: state: kill-whom: preset-mode:", ""},
	{"systemctl edit,systemctl link,systemctl set-environment,systemctl import-environment", "*", "changes what later runs"},
	{"journalctl", "D,directory: root: image: cursor-file: setup-keys", "reads or writes elsewhere than the journal"},
	{"journalctl", "u,unit: user-unit: n,lines: S,since: U,until: o,output: p,priority: t,identifier: b,boot? c,cursor: g,grep: facility: output-fields: M,machine: F,field:", ""},
	{"at,batch,cron,crond,anacron", "*", later},
	{"crontab", "e r u: s", later},
	{"launchctl,schtasks,sc", "*", later},
	{"mkfs,fsck", "*", "runs a program that is named for the type"},
	{"run-parts", "*", "runs every program in a directory"},
	{"ldd", "*", "may run the program that it is asked about"},
	{"install,ginstall", "strip-program: s,strip", runs},
	{"install,ginstall", "g,group: m,mode: o,owner: t,target-directory: S,suffix:", ""},
	{"perf,bpftrace,stap,dtrace,bpftool", "*", "can run programs and reads other processes"},
	{"nix run,nix shell,nix develop,nix eval,nix repl,nix-instantiate,guix shell,guix environment,flatpak run,snap run,dotnet exec,dotnet script", "*", runsCode},
	{"run-mailcap,see,compose,print,edit,sensible-browser,x-www-browser,www-browser,start,open,xdg-open,gio,gnome-open,cygstart,wslview,rundll32,regsvr32,mshta,wmic,msiexec,cscript,wscript,certutil,bitsadmin,forfiles", "*", "starts whatever its argument is made for"},
	{"wine,qemu,qemu-system-x86_64,qemu-x86_64,qemu-aarch64,qemu-user,binfmt", "*", runs},
	{"sotruss,latrace,uftrace,debconf-apt-progress,dpkg-buildpackage,debuild,debi,scriptlive,systemd-cat,systemd-inhibit,systemd-socket-activate,systemd-mount,systemd-notify,uclampset,coresched,xinit,startx,cgexec,numactl,schedtool,tsp,ts-run,watchman,fswatch,inotifyexec,entr,nodemon,watchexec,incrontab,reflex,pm2,forever,concurrently,cross-env,dotenv,op,aws-vault,chamber,teller,sops,gosu,su-exec,tini,dumb-init,s6-setuidgid,chpst,softlimit,setlock,envdir,runsv,daemonize,daemon,ts-node-dev,hyperfine,flamegraph,ltrace-run,catchsegv,memusage,retry,chronic,ifne,mispipe,sponge-run,pee,zrun,vipe,vidir,torsocks,torify,proxychains,proxychains4,tsocks,trickle,eatmydata,ccache,distcc,sccache,icecc,scan-build,bear,sg,newgrp,login,agetty,getty,runcon,chcon,aa-exec,unbound-control,sandbox,i3-msg,xdotool,xterm,urxvt,gnome-terminal,konsole,alacritty,kitty,wezterm,osacompile,automator", "*", "runs the program or the code that its arguments or files name"},
}
