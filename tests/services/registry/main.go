// A schema registry's wire protocol for tests and for `./x up`: franz-go's fake, with a memory that outlives the process.
//
// Requests that changed something are written to the journal and played again at the next start. Ids follow from their
// order, so they stay what they were. The fake says yes to every compatibility question: the answer is Forebay's to give.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/sr/srfake"
)

// A request as the journal keeps it, one a line.
type entry struct {
	Method, Target, Body string
}

func main() {
	listen := flag.String("listen", "127.0.0.1:8085", "address")
	journal := flag.String("journal", "", "file that outlives the process; nothing is kept without it")
	user := flag.String("user", "", "user:password that every request must bring")
	cert := flag.String("cert", "", "certificate, PEM: serve https")
	key := flag.String("key", "", "its key, PEM")
	flag.Parse()

	var options []srfake.Option
	if *user != "" {
		options = append(options, srfake.WithAuth("Basic "+base64.StdEncoding.EncodeToString([]byte(*user))))
	}
	registry := srfake.NewRegistry(options...)
	handler := registry.Handler()
	if *journal != "" {
		handler = remember(handler, *journal, *user)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", listener.Addr())
	if *cert != "" {
		log.Fatal(http.ServeTLS(listener, handler, *cert, *key))
	}
	log.Fatal(http.Serve(listener, handler))
}

func remember(inner http.Handler, path, user string) http.Handler {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		log.Fatal(err)
	}
	replay(inner, file, user)
	var lock sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/versions") {
			inner.ServeHTTP(w, r)
			return
		}
		// One at a time, so that the journal has the order in which ids were given.
		lock.Lock()
		defer lock.Unlock()
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		kept := entry{r.Method, r.URL.RequestURI(), string(body)}
		r.Body = io.NopCloser(bytes.NewReader(body))
		answer := httptest.NewRecorder()
		inner.ServeHTTP(answer, r)
		if answer.Code < 300 {
			line, _ := json.Marshal(kept)
			if _, err := file.Write(append(line, '\n')); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	})
}

func replay(inner http.Handler, journal io.Reader, user string) {
	lines := bufio.NewScanner(journal)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var kept entry
		if err := json.Unmarshal(lines.Bytes(), &kept); err != nil {
			// A line cut off by a kill: its request was never answered.
			log.Printf("journal: %v", err)
			continue
		}
		request := httptest.NewRequest(kept.Method, kept.Target, bytes.NewReader([]byte(kept.Body)))
		if user != "" {
			request.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user)))
		}
		inner.ServeHTTP(httptest.NewRecorder(), request)
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
}
