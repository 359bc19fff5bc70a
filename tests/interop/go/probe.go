// A Go program that knows nothing of svc: it reads certificates and calls gRPC with what Go brings
// itself, crypto/x509, crypto/tls and the HTTP/2 of net/http.  Asked by JSON on stdin, answers by
// JSON on stdout.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const timeout = 20 * time.Second

// certificate is one to read, with the certificates above it but without the root.
type certificate struct {
	Name  string
	Chain []string
	Host  string
}

// seen is what Go makes of one certificate.
type seen struct {
	Parsed   string   `json:"parsed"`
	URIs     []string `json:"uris"`
	Subject  string   `json:"subject"`
	Critical int      `json:"critical"`
	Any      string   `json:"any"`
	Server   string   `json:"server"`
	Client   string   `json:"client"`
}

// call is what is asked of a listener.  A Host is checked as browsers do; without one the chain
// alone is, and the leaf's URI must be the one given, as SPIFFE's own libraries do.
type call struct {
	Address, Root, Host, URI string
	Key, Pair                string
	Methods                  []string
}

type question struct {
	Root         string
	Certificates []certificate
	Calls        []call
}

type answers struct {
	Certificates map[string]seen `json:"certificates"`
	Calls        [][]string      `json:"calls"`
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	told := answers{map[string]seen{}, [][]string{}}
	for _, one := range asked.Certificates {
		told.Certificates[one.Name] = look(one, asked.Root)
	}
	for _, one := range asked.Calls {
		told.Calls = append(told.Calls, calls(one))
	}
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		os.Exit(2)
	}
}

// word is "ok", or what is wrong.
func word(err error) string {
	if err == nil {
		return "ok"
	}
	return err.Error()
}

func parse(text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("not PEM")
	}
	return x509.ParseCertificate(block.Bytes)
}

func pool(texts ...string) *x509.CertPool {
	made := x509.NewCertPool()
	for _, text := range texts {
		made.AppendCertsFromPEM([]byte(text))
	}
	return made
}

func look(one certificate, root string) seen {
	found, err := parse(one.Chain[0])
	if err != nil {
		return seen{Parsed: word(err)}
	}
	told := seen{Parsed: "ok", Subject: found.Subject.SerialNumber}
	for _, each := range found.URIs {
		told.URIs = append(told.URIs, each.String())
	}
	told.Critical = len(found.UnhandledCriticalExtensions)
	verify := func(usage x509.ExtKeyUsage, host string) string {
		_, err := found.Verify(x509.VerifyOptions{
			Roots:         pool(root),
			Intermediates: pool(one.Chain[1:]...),
			KeyUsages:     []x509.ExtKeyUsage{usage},
			DNSName:       host,
		})
		return word(err)
	}
	told.Any = verify(x509.ExtKeyUsageAny, "")
	told.Server = verify(x509.ExtKeyUsageServerAuth, one.Host)
	told.Client = verify(x509.ExtKeyUsageClientAuth, "")
	return told
}

func settings(one call) (*tls.Config, error) {
	made := &tls.Config{RootCAs: pool(one.Root), ServerName: one.Host, NextProtos: []string{"h2"}}
	if one.Host == "" {
		made.InsecureSkipVerify = true // VerifyConnection does it instead.
		made.VerifyConnection = func(state tls.ConnectionState) error { return spiffe(one, state) }
	}
	if one.Pair != "" {
		pair, err := tls.X509KeyPair([]byte(one.Pair), []byte(one.Key))
		if err != nil {
			return nil, err
		}
		made.Certificates = []tls.Certificate{pair}
	}
	return made, nil
}

func spiffe(one call, state tls.ConnectionState) error {
	leaf, above := state.PeerCertificates[0], x509.NewCertPool()
	for _, each := range state.PeerCertificates[1:] {
		above.AddCert(each)
	}
	options := x509.VerifyOptions{Roots: pool(one.Root), Intermediates: above}
	if _, err := leaf.Verify(options); err != nil {
		return err
	}
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != one.URI {
		return fmt.Errorf("somebody else: %v", leaf.URIs)
	}
	return nil
}

func calls(one call) []string {
	told := []string{}
	made, err := settings(one)
	if err != nil {
		return append(told, word(err))
	}
	transport := &http.Transport{TLSClientConfig: made, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: timeout}
	for _, method := range one.Methods {
		told = append(told, unary(client, one.Address, method))
	}
	return told
}

// unary is the answer's message in hex, or "status N", or what went wrong below gRPC.
func unary(client *http.Client, address, method string) string {
	empty := bytes.NewReader(make([]byte, 5)) // one message of no bytes
	request, err := http.NewRequest("POST", "https://"+address+method, empty)
	if err != nil {
		return word(err)
	}
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("TE", "trailers")
	answer, err := client.Do(request)
	if err != nil {
		return word(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return word(err)
	}
	if answer.ProtoMajor != 2 || answer.StatusCode != 200 {
		return fmt.Sprintf("%s %d", answer.Proto, answer.StatusCode)
	}
	status := answer.Trailer.Get("Grpc-Status")
	if status == "" {
		status = answer.Header.Get("Grpc-Status")
	}
	if status != "0" {
		return "status " + status
	}
	if len(body) < 5 {
		return "no message"
	}
	return fmt.Sprintf("%x", body[5:])
}
