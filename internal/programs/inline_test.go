package programs

import "testing"

func TestInlineCode(t *testing.T) {
	for in, want := range map[string]string{
		"python3 -c x":             "python3 -c",
		"python3.11 -Bc x":         "python3.11 -c",
		"python3 -W error -c x":    "python3 -c",
		"python3 -cx":              "python3 -c",
		"/opt/x/pypy3 -c x":        "pypy3 -c",
		"python3 $x":               `python3 "$x"`,
		"python3 x.py -c y":        "",
		"python3 -m x -c y":        "",
		"python3 -- x.py":          "",
		"python3 -V":               "",
		"node -e x":                "node -e",
		"node -pe x":               "node -pe",
		"node -p x":                "node -p",
		"nodejs --eval=x":          "nodejs --eval",
		"node --ev x":              "node --ev",
		"node --no-warnings -e x":  "node -e",
		"node --frob -e x":         "node -e",
		"node x.js -e y":           "",
		"deno eval x":              "deno eval",
		"bun -e x":                 "bun -e",
		"ruby -ne x":               "ruby -e",
		"perl -pi -e x":            "perl -e",
		"perl -i.bak -pe x":        "perl -e",
		"perl -i.e x.pl":           "",
		"perl -lane x":             "perl -e",
		"perl -E x":                "perl -E",
		"php -r x":                 "php -r",
		"lua5.4 -e x":              "lua5.4 -e",
		"osascript -e x":           "osascript -e",
		"awk '{print $1}' x":       "awk inline program",
		"awk -F: -v a=b p x":       "awk inline program",
		"awk -f x y":               "",
		"awk -fx y":                "",
		"gawk -f x -e y":           "gawk -e",
		"gawk --file=x --source y": "gawk --source",
		"awk --frob -f x":          "awk inline program",
		"awk --version":            "",
		"awk":                      "",
		"sed -n 5p":                "sed inline program",
		"sed -ne 5p":               "sed -e",
		"sed x y -e z":             "sed -e",
		"gsed --expression=x":      "gsed --expression",
		"sed --expr=x":             "sed --expr",
		"sed -f x y":               "",
		"sed -nf x y":              "",
		"make all":                 "",
		"make -C x all":            "",
		"make -C -f":               "",
		"make -Cf all":             "",
		"make all -f x":            "make -f",
		"make --makefile=x":        "make --makefile",
		"make -E x":                "make -E",
		"find . -- -exec ls ;":     "find -exec",
		"find . -okdir ls ;":       "find -okdir",
		"find . -name '-execx'":    "",
		"xargs":                    "",
		"xargs -n1 ls":             "xargs inline command",
		"xargs --frob ls":          "xargs inline command",
		"xargs -I{} ls":            "xargs inline command",
		"tclsh x":                  "",
		"expect -c x":              "expect -c",
		"julia -E x":               "julia -E",
		"ls -e x":                  "",
		"$x -c y":                  "",
	} {
		if got, hit := InlineCode(line(in)); got != want || hit != (want != "") {
			t.Errorf("inlineCode(%s) = %q, %t, want %q", in, got, hit, want)
		}
	}
}

func TestIsInterpreter(t *testing.T) {
	for name, want := range map[string]bool{
		"python3.12": true, "/usr/bin/perl5.36": true, "**/node": true, "NODE.EXE": true, "lua": true, "gawk": true, "jq": true, "bash": true, "env": true, "find": true,
		"ls": false, "cut": false, "tr": false, "pythonesque": false, "": false, "7z": false,
	} {
		if IsInterpreter(name) != want {
			t.Errorf("isInterpreter(%q) = %t", name, !want)
		}
	}
}

func TestScriptOperand(t *testing.T) {
	for _, c := range []struct {
		in  string
		at  int  // -1: none
		why bool // there is a reason
	}{
		{"bash x.sh -c y", 1, false}, {"bash -e x.sh", 2, false}, {"sh -o errexit -- x.sh", 4, false}, {"bash +x x.sh", 2, false}, {"bash --posix x.sh", 2, false},
		{"bash -euo pipefail x.sh", 3, false}, {"zsh x", 1, false}, {"fish -N x", 2, false}, {"bash", -1, true}, {"bash -s x", -1, true}, {"bash $x", -1, true}, {"bash ./$x", -1, true},
		{"bun --cwd x run y.ts", -1, true},
		{"bash --rcfile x y", -1, true}, {"bash --rcfile=x y", -1, true}, {"bash -c x", -1, false}, {"bash --version", -1, false}, {"bash /dev/stdin", -1, true}, {"bash -", -1, true},
		{"cmd x.bat", -1, true}, {"pwsh x.ps1", -1, true},
		{". ./x", 1, false}, {"source ./x y", 1, false}, {"source x", -1, true}, {". $x", -1, true}, {". -- ./x", 2, false},
		{"python3 -B x.py -c y", 2, false}, {"python3 -X dev -W error x.py", 5, false}, {"python3 -m x", -1, true}, {"python3 -c x", -1, true}, {"python3 -", -1, true}, {"python3", -1, true}, {"python3 -V", -1, false}, {"python3 --frob x", -1, true}, {"python3 ''", -1, true},
		{"node x.js", 1, false}, {"node --no-warnings x.js", 2, false}, {"node -r x y.js", -1, true}, {"node --import=x y.js", -1, true}, {"node inspect x.js", -1, true}, {"node --test", -1, true}, {"node --env-file=x y.js", -1, true}, {"node --inspect x.js", -1, true},
		{"tsx x.ts", 1, false}, {"tsx watch x.ts", -1, true}, {"ts-node -T x.ts", 2, false},
		{"bun x.ts", 1, false}, {"bun run x.ts", 2, false}, {"bun run dev", -1, true}, {"bun dev", -1, true}, {"bun install", -1, false}, {"bun --smol run ./x", 3, false}, {"bun run --smol ./x", 3, false}, {"bun --preload=x y.ts", -1, true},
		{"deno run -A x.ts", 3, false}, {"deno run --allow-net=x x.ts", 3, false}, {"deno run --import-map=y x.ts", -1, true}, {"deno eval x", -1, true}, {"deno fmt", -1, false}, {"deno test", -1, true},
		{"ruby -w x.rb", 2, false}, {"ruby -r x y.rb", -1, true}, {"ruby -I. x.rb", -1, true}, {"perl -w x.pl", 2, false}, {"perl -MX y.pl", -1, true}, {"perl -S x", -1, true}, {"perl -e x", -1, true},
		{"php x.php", 1, false}, {"php -f x.php", 2, false}, {"php -fx.php", -1, true}, {"php -S localhost:1", -1, true}, {"lua x.lua", 1, false},
		{"awk -f x y", 2, false}, {"awk -f x -f y", -1, true}, {"awk p x", -1, true}, {"sed -f x y", 2, false}, {"sed -f x y -e z", -1, true}, {"make", -1, true}, {"java -jar x.jar", 2, false}, {"java -javaagent:x -jar y.jar", -1, true},
		{"npx tsx ./x.ts", 2, false}, {"npx -y tsx ./x.ts", 3, false}, {"npx -c x", -1, true}, {"npx eslint x.ts", -1, false}, {"npm exec -- tsx ./x.ts", 4, false}, {"npm exec --frob tsx x.ts", -1, true}, {"npm test", -1, false},
		{"pnpm exec tsx ./x.ts", 3, false}, {"pnpm --silent exec tsx ./x.ts", 4, false}, {"pnpm --frob exec tsx ./x.ts", -1, true}, {"pnpm dlx --frob tsx ./x.ts", -1, true}, {"pnpm dlx tsx ./x.ts", 3, false}, {"pnpm dlx cowsay x", -1, false}, {"pnpm node x.js", 2, false}, {"pnpm -C y node ./x.js", 4, false}, {"pnpm run x", -1, true}, {"pnpm install", -1, false},
		{"bunx tsx ./x.ts", 2, false}, {"yarn exec node x.js", 3, false}, {"uv run x.py", -1, false},
		{"ls x", -1, false}, {"$x y", -1, false}, {"", -1, false},
	} {
		if at, why := ScriptOperand(line(c.in)); at != c.at || (why != "") != c.why {
			t.Errorf("scriptOperand(%s) = %d, %q, want %d, %t", c.in, at, why, c.at, c.why)
		}
	}
}

func TestHarmlessText(t *testing.T) {
	for in, want := range map[string]bool{
		"sed -n 5p x": true, "sed -n '1,200p' x": true, "sed 's/a/b/g' x": true, "sed -n '/^func/p;$d' x": true, "sed -E 's/a|b/c/' x": true,
		"sed -e 1d -e '$d' x": true, "sed -ne 5p x": true, "sed --expression=s/a/b/ -E x y": true, "sed -e5p": true,
		"sed -e 1d -e 'w f' x": false, "sed -e 's/a/b' -e '/w f' x": false, "sed -e 's/a/b/\\' -e 'e' x": false, "sed -e $x": false, "sed -e 1d -i x": false, "sed -e 1d -f x": false, "sed -e": false, "sed -e 1d *": false, "sed": false, "sed 5p -e 6p": false,
		"sed s/a/b/e": false, "sed s/a/b/w": false, "sed 's/a/b/;e'": false, "sed 's/a/b/w f'": false, "sed 'w f'": false, "sed e": false, "sed 's/[/]/e/'": false, "sed -i 5p x": false, "sed 5p -i x": false, "sed 5p *": false, "sed -f x": false, "sed -n 'p\ne'": false, "sed 's/a/b/ge'": false, "sed s,a,b,": false, "sed r/etc/passwd": false, "sed p $x": false,
		"awk '{print $1}' x": true, "awk -F: '{print $1, NF}'": true, "awk '{system(1)}'": false, "awk '{print|1}'": false, "awk '{print>1}'": false, "awk '{getline}'": false, "awk '@load 1'": false, "awk -f x p": false, "gawk -E x p": false, "gawk -l x p": false, "awk $x": false,
		"python3 -c x": false, "ls": false,
	} {
		if got := HarmlessText(line(in)); got != want {
			t.Errorf("harmlessText(%s) = %t", in, got)
		}
	}
}
