package programs

import "testing"

func TestCarrier(t *testing.T) {
	for _, in := range []string{
		"git -c core.pager=x log", "git -ccore.pager=x log", "git -C . -c alias.x=!y x", "git --exec-path=/x log", "git --config-env=a=b log",
		"git -p log", "git --paginate log", "git --pag log", "git frob", "git $x", "git -C $x status", "git $x push",
		"git grep -O x", "git grep -Ovi x", "git grep -nOvi x", "git grep --open-files-in-pager=vi x", "git grep -e -- -Ovi",
		"git rebase -x 'make' main", "git rebase --exec=make main", "git rebase --ex make main", "git rebase -i", "git bisect run make",
		"git difftool", "git mergetool", "git submodule foreach ls", "git submodule --quiet foreach ls", "git filter-branch", "git credential fill",
		"git config core.pager x", "git config --global alias.x '!y'", "git config --add core.hookspath x", "git config set core.editor x", "git config $x y", "git config -e",
		"git config --unset core.hookspath", "git config -f x user.name",
		"git clone ext::sh", "git clone -u x y", "git clone --upload-pack=x y", "git clone -c a=b y", "git clone --template=x y", "git clone $x", "git fetch --upload-pack x",
		"git ls-remote --upl=x y", "git push --receive-pack=x", "git push ext::x", "git remote add x ext::y", "git remote set-url x ext::y",
		"git commit", "git commit --amend", "git commit -tm", "git commit --allow-empty", "git commit --squash=x -m y", "git commit --fixup=amend:x", "git commit -- -m", "git tag -a x", "git tag -s x", "git notes add", "git rebase --continue", "git merge --cont", "openssl engine dynamic -pre x", "gpg --homedir x -k", "git rebase -s x y", "git rebase --strategy=x y", "git format-patch --output=x", "git format-patch -o x", "git fast-export --export-marks=x", "git read-tree --index-output=x HEAD", "git checkout-index --prefix=x/ -a", "git diff --ext-diff", "git log --textconv", "git diff --output=x", "git show --output x", "git archive --remote=x HEAD", "git archive -o x HEAD", "git log $x",
		"tar --to-command=x -xf y", "tar --to-com x", "tar --checkpoint=1 --checkpoint-action=exec=x", "tar -I x -cf y", "tar -cIf x y", "tar cIf x y", "tar xFf x y", "tar --use-compress-program x", "tar -xf y --rsh-command=x", "tar -xf x $y", "tar xf x *", "tar --info-script x", "tar -F x",
		"rsync -e ssh a b", "rsync -aze ssh a b", "rsync --rsync-path=x a b", "rsync --rs x a b",
		"ssh -o ProxyCommand=x h", "ssh -oProxyCommand=x h", "ssh -F x h", "scp -S x a b", "scp -oProxyCommand=x a b",
		"rg --pre x y", "rg --pre=x y", "rg -z y", "rg -nz y", "rg --search-zip y", "fd -x rm", "fd -X rm", "fd --exec rm", "fd -HIx rm",
		"man -P x y", "man -Px y", "man --pager=x y", "man -H y", "man -Hx y",
		"less x", "more", "vi x", "vim -c x", "nano", "emacs --batch", "ed", "/usr/bin/VIM.exe", "ex -s",
		"sort --compress-program x", "sort --comp=x", "sort -o x y", "sort y -o x", "sort -rox y", "sort --output=x", "sort -k 1 -o x", "split --filter=x", "split --f=x",
		"zip x y -T -TTz", "zip -qTTz x y", "zip x y -TT z", "zip x y --unzip-command z",
		"curl -w %output{x}y u", "curl -sw %output{x}y u", "curl --write-out=%output{x}y u", "curl -w @x u", "curl -o x u", "curl -sSLo x u", "curl -O u", "curl -sO u", "curl -K x", "curl --config x", "curl --output x u", "curl u --output=x", "curl --expand-output x u", "curl u --expand-config=x", "curl -o ~$x u",
		"wget --rejected-log=x u", "uniq a b", "uniq -c a b", "uniq -f 1 a b", "uniq -- -f a", "uniq -f -f 1 a", "xxd a b", "file -C -m x", "file -bC x", "file -z x", "nm --plugin x y", "nm --plugin=x y", "nm @x", "gcc @x", "gcc x.c -Wl,-plugin,x", "gcc x.c -Wl,@x", "gcc x.c -Xlinker -plugin -Xlinker x", "ld @x", "tar tf x --index-file=y", "tar cf x -g y z", "wget -O x u", "wget --use-askpass=x u", "wget -e x u", "wget --exec x u", "wget -qO x u",
		"make CC=x", "make SHELL=x all", "make all $x", "npm --script-shell=x run y", "npm run y --script-shell=x", "npm test -script-shell=x", "npm test ---script-shell x", "npm test -script-sh=x", "npm config set x y", "npm create x",
		"go test -exec x ./...", "go test -exec=x ./...", "go test ./... --exec x", "go build -toolexec x", "go vet -vettool=x", "go env -w CC=x", "cargo --config x build", "cargo build --config x",
		"pip install -i x y", "pip install --index-url=x y", "docker run x", "docker --log-level x exec y z", "docker --frob run x", "docker --frob x run y", "docker -H x ps", "docker compose run x", "kubectl exec x", "kubectl -n x exec y", "kubectl --kubeconfig x get pods",
		"systemctl edit x", "at now", "batch", "crontab x -e", "crontab -", "openssl req -engine x", "openssl s_client --provider x",
		"sqlite3 x.db .shell", "sqlite3 x.db '.shell ls'", `sqlite3 x.db 'select load_extension("x")'`, "sqlite3 x.db", "sqlite3 -cmd .shell x.db y", "sqlite3 x.db $y",
		"psql -c x", "mysql -e x", "nmap --script x h", "nmap -script x h", "tcpdump -z x", "tcpdump -nz x",
		"ip net exec x y", "ip netns e x y", "ip vrf exec x y", "ip -b x", "ip -batch x", "socat x y", "nc -e x h 1", "nc -lvec x", "ncat --sh-exec x h", "ncat -c x h",
		"find . -delete", "find . -fprint x", "find . -fls x", "find . $x", "find . -fprintf x y",
		"python3 -i x.py", "python3 -bi x.py", "lua -i x.lua", "node --experimental_loader=x y.js", "node --experimental-config-file=x y.js", "node --snapshot-blob x y.js", "node -r x y.js", "node --import=x y.js", "node --require x y.js", "node --loader x y.js", "ruby -r x y.rb", "ruby -rx y.rb", "ruby -I. y.rb", "perl -MX y.pl", "perl -Ilib y.pl", "perl -d y.pl", "php -d x y.php", "lua -l x y.lua", "gawk -l x -f y", "bun --preload x y.ts",
		"awk -f x", "sed -f x y", "yarn x", "tar cf x -- --a*", "npm run x", "go run x.go", "python3", "python3 -", "perl", "node /dev/stdin", "python3 -m x", "ruby -w", "tmux new x", "screen x", "expect x", "dpkg --pre-invoke=x", "apt-get -o x=y update", "gdb", "xdg-open x", "nodemon x", "nix run x", "latex -shell-escape x", "strace -frob $x ls", "run-parts x",
	} {
		reason, hit := Carrier(line(in))
		// A refused wrapper needs no reason as a carrier.
		if !hit && Peel(line(in)).Kind != LayerRefused {
			t.Errorf("carrier(%s) finds nothing", in)
		}
		if hit && reason == "" {
			t.Errorf("carrier(%s) has no reason", in)
		}
	}
	for _, in := range []string{
		"", "$x", "ls", "ls *.go", "ls -o $x", "cp a b", "cat x | less", "tee x", "dd of=x",
		"git", "git status", "git -C . status", "git status $x", "git log -p", "git log -S x -n 5", "git log --oneline", "git diff --stat", "git commit -m 'a -- b'", "git commit -m x -a", "git push -u origin main",
		"git push origin main", "git clone https://example.org/x", "git clone git@example.org:x y", "git fetch --all", "git config user.name x", "git config --get core.pager", "git config core.pager", "git config --list", "git config get core.pager", "git rebase main", "git commit -am x", "git commit --amend --no-edit", "git commit --message=x", "git commit -qF x", "git commit --fixup HEAD", "git tag v1", "git tag", "git tag -a v1 -m x", "git tag -l x", "git notes show", "git notes add -m x", "git rebase --abort",
		"git bisect good", "git submodule update", "git grep -n x", "git grep x -- -O", "git grep -e -O", "git stash", "git remote -v", "git remote add x https://example.org/y", "git --no-pager log", "git branch -a", "git add .",
		"tar -czf x y", "tar czf x y", "tar -xf x -C y", "tar --exclude x -cf y z",
		"rsync -av a b", "rsync --exclude -e a b", "scp a b", "rg x", "rg -n -e -z", "rg -- -z", "rg --pre-glob x y", "fd x", "fd -e x",
		"man ls", "man -k x", "sort", "sort -k 1,2 -t , x", "sort -ro /dev/null x", "sort -to x", "sort -- -o", "split -b 5 x", "zip -r x y",
		"curl u", "curl -sS u", "curl -o /dev/null u", "curl -H x -d y u", "curl -X POST u", "curl -Xo u", "wget u", "wget -qO - u", "wget -qO- u",
		"make", "make -j 4 test", "npm test", "npm install", "go test ./...", "go build", "go vet ./...", "cargo build --release", "pip install x", "pip install -r x", "docker ps", "docker --log-level x ps", "docker build .", "kubectl get pods", "kubectl -n x get pods", "kubectl apply -f x",
		"systemctl status x", "crontab -l", "openssl version", "sqlite3 x.db 'select 1'", "nc h 1", "ip addr", "ip -n x addr", "find . -name x", "find . -exec ls {} ;",
		"python3 -V", "perl -v", "node x.js -r", "node x.js --import=y", "python3 x.py", "perl x.pl -MX", "ruby x.rb -r", "journalctl -u x", "jq . x", "uniq a", "uniq -c", "uniq -f 1 a", "xxd -l 5 a", "file x", "nm x", "gcc -O2 -o x x.c -Wl,-rpath,/x", "curl -sw %{http_code} u", "npm test -- -x", "npm -s test", "npm -w x ci", "pnpm -C x test", "pnpm --filter=x -r test", "yarn", "yarn --cwd x test", "bun run x.ts", "bun test", "uv --directory x sync", "npm install --prefer-offline", "zip -r x TT", "node --max_old_space_size=5 x.js", "diff a b", "install -m 644 a b",
	} {
		if reason, hit := Carrier(line(in)); hit {
			t.Errorf("carrier(%s): %s", in, reason)
		}
	}
}

// The rows of the table are well-formed.
func TestCarrierTable(t *testing.T) {
	for name, c := range carriers() {
		if name != NormalizeName(name) {
			t.Errorf("%q is no name of a program", name)
		}
		if c.always == "" && c.sub == nil && c.words == nil && c.indifferent() {
			t.Errorf("%s: nothing of it is ever found", name)
		}
	}
}
