package daemon

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/globalfs/globalfs/internal/registry"
)

// FuzzControl: every request to a server itself gets an answer or an error.
func FuzzControl(f *testing.F) {
	for _, q := range []Request{{Op: Describe}, {Op: Join, Region: "west", Address: "h:1"}, {Op: "unknown"}} {
		text, err := json.Marshal(q)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("[]"))
	file := DefaultFile()
	d, err := new(Server).read(registry.Document{Value: append(addressedSpec(&file), "version: 3\n"...)})
	if err != nil {
		f.Fatal(err)
	}
	s := &Server{cfg: ServerConfig{Name: "us-west-2a", Logger: slog.New(slog.DiscardHandler)}}
	s.known.current.Store(d)
	f.Fuzz(func(t *testing.T, request []byte) {
		var q Request
		if json.Unmarshal(request, &q) == nil && q.Op != Describe {
			return // these need the rest of the server
		}
		answer, err := s.control(t.Context(), request)
		var said Description
		if err == nil && (json.Unmarshal(answer, &said) != nil || said.Version != 3) {
			t.Fatalf("%q gets %q", request, answer)
		}
	})
}

// FuzzFile: any input as a cluster file is read, or refused with a reason.
func FuzzFile(f *testing.F) {
	file := DefaultFile()
	file.Name, file.Registry.Endpoints = "x", []string{"http://h:1"}
	addressedSpec(&file)
	f.Add([]byte(file.Template()))
	file.Registry.Endpoints, file.Registry.File, file.Durability = nil, "registry.json", "memory"
	f.Add([]byte(file.Template()))
	f.Add([]byte(file.Template() + "partitions: 3\nglobal_partitions: 2\n"))
	f.Add([]byte("name: x\nregions: [a"))
	f.Fuzz(func(t *testing.T, text []byte) {
		read, err := parseFile(text)
		if err != nil {
			return
		}
		again, err := parseFile([]byte(read.Template()))
		if err != nil {
			t.Fatalf("%v in what was written of %q:\n%s", err, text, read.Template())
		}
		plan, err := again.Plan()
		if err != nil {
			t.Fatal(err)
		}
		if before, err := read.Plan(); err != nil || len(before.Partitions) != len(plan.Partitions) {
			t.Fatalf("%v, %d partitions in what was written of %q:\n%s", err, len(plan.Partitions), text, read.Template())
		}
	})
}

// addressedSpec assigns an address to each server of a file, and returns the YAML of its spec.
func addressedSpec(f *File) []byte {
	f.Addresses = nil
	plan, err := f.Plan()
	if err != nil {
		panic(err)
	}
	f.Addresses = map[string]string{}
	for _, s := range plan.Servers {
		f.Addresses[s.Name] = s.Name + ".example.com:7420"
	}
	return f.Spec.YAML()
}
