// This program calls every operation of gomemcache, a client in Go. Argument: HOST:PORT.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

var client *memcache.Client

func main() {
	log.SetFlags(log.Lshortfile)
	client = memcache.New(os.Args[1])
	client.Timeout = 10 * time.Second
	ok(client.FlushAll())
	for _, part := range []func(){storing, values, cas, arithmetic, expiry, administration} {
		part()
	}
}

func storing() {
	ok(client.Set(item("a", "1")))
	holds("a", "1")
	misses("absent")
	fails(client.Add(item("a", "2")), memcache.ErrNotStored)
	ok(client.Add(item("b", "2")))
	fails(client.Replace(item("absent", "x")), memcache.ErrNotStored)
	ok(client.Replace(item("b", "3")))
	ok(client.Append(item("b", "4")))
	ok(client.Prepend(item("b", "2")))
	fails(client.Append(item("absent", "x")), memcache.ErrNotStored)
	fails(client.Prepend(item("absent", "x")), memcache.ErrNotStored)
	holds("b", "234")
	found, err := client.GetMulti([]string{"a", "b", "absent"})
	ok(err)
	check(len(found) == 2 && string(found["a"].Value) == "1", "GetMulti must return only a and b, but returned %v", found)
	ok(client.Delete("b"))
	fails(client.Delete("b"), memcache.ErrCacheMiss)
	ok(client.Set(&memcache.Item{Key: "f", Value: []byte("x"), Flags: 1<<32 - 1}))
	flagged, err := client.Get("f")
	ok(err)
	check(flagged.Flags == 1<<32-1, "the client flags are %d, not 1<<32-1", flagged.Flags)
}

func values() {
	large := bytes.Repeat([]byte("0123456789abcdef\r\n\x00\xff"), 45_000)
	for _, value := range []string{"", "\r\n\x00END\r\n\xff", string(large)} {
		ok(client.Set(item("v", value)))
		holds("v", value)
	}
	for _, length := range []int{1, 249, 250} {
		key := strings.Repeat("k", length)
		ok(client.Set(item(key, "x")))
		holds(key, "x")
	}
	var keys []string
	for i := 0; i < 1000; i++ {
		key := fmt.Sprintf("many%d", i)
		keys = append(keys, key)
		ok(client.Set(item(key, strings.Repeat(key, 20))))
	}
	found, err := client.GetMulti(keys)
	ok(err)
	for _, key := range keys {
		check(string(found[key].Value) == strings.Repeat(key, 20), "the value of %s must be the stored one", key)
	}
	check(client.Set(item("v", strings.Repeat("x", 2_000_000))) != nil, "the server must refuse a value of 2 MB")
	misses("v")
}

func cas() {
	ok(client.Set(item("c", "1")))
	first, err := client.Get("c")
	ok(err)
	first.Value = []byte("2")
	ok(client.CompareAndSwap(first))
	first.Value = []byte("3")
	fails(client.CompareAndSwap(first), memcache.ErrCASConflict)
	holds("c", "2")
	ok(client.Delete("c"))
	fails(client.CompareAndSwap(first), memcache.ErrCacheMiss)
}

func arithmetic() {
	ok(client.Set(item("n", "10")))
	counts(client.Increment("n", 5))(15)
	counts(client.Decrement("n", 6))(9)
	counts(client.Decrement("n", 100))(0)
	counts(client.Increment("n", 1<<64-1))(1<<64 - 1)
	counts(client.Increment("n", 2))(1)
	_, err := client.Increment("absent", 1)
	fails(err, memcache.ErrCacheMiss)
	_, err = client.Decrement("absent", 1)
	fails(err, memcache.ErrCacheMiss)
	ok(client.Set(item("text", "text")))
	_, err = client.Increment("text", 1)
	check(err != nil, "the server must refuse to increment a text")
}

func expiry() {
	ok(client.Set(&memcache.Item{Key: "e", Value: []byte("1"), Expiration: 1}))
	waitForMiss("e")
	ok(client.Set(item("e", "1")))
	ok(client.Touch("e", 100))
	holds("e", "1")
	ok(client.Touch("e", 1))
	waitForMiss("e")
	fails(client.Touch("e", 1), memcache.ErrCacheMiss)
	ok(client.Set(item("e", "1")))
	touched, err := client.GetAndTouch("e", 1)
	ok(err)
	check(string(touched.Value) == "1", "GetAndTouch returned %q", touched.Value)
	waitForMiss("e")
	_, err = client.GetAndTouch("e", 1)
	fails(err, memcache.ErrCacheMiss)
}

func administration() {
	ok(client.Ping())
	ok(client.DeleteAll())
	misses("a")
	ok(client.Set(item("a", "1")))
	ok(client.FlushAll())
	misses("a")
	ok(client.Close())
}

// item returns an item with client flags 7 and no expiration.
func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value), Flags: 7}
}

// holds checks that a get of the key returns the value.
func holds(key, value string) {
	found, err := client.Get(key)
	ok(err)
	check(string(found.Value) == value, "the value of %s is %.40q, not %.40q", key, found.Value, value)
}

// misses checks that a get of the key misses.
func misses(key string) {
	_, err := client.Get(key)
	fails(err, memcache.ErrCacheMiss)
}

// waitForMiss waits until a get of the key misses, for at most 10 seconds.
func waitForMiss(key string) {
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := client.Get(key)
		if errors.Is(err, memcache.ErrCacheMiss) {
			return
		}
		ok(err)
		check(time.Now().Before(deadline), "%s must expire within 10 seconds", key)
		time.Sleep(50 * time.Millisecond)
	}
}

// counts checks that an operation succeeded, and returns a function that checks its number.
func counts(value uint64, err error) func(uint64) {
	ok(err)
	return func(expected uint64) { check(value == expected, "the number is %d, not %d", value, expected) }
}

// fails checks that an operation failed with the expected error.
func fails(err, expected error) {
	check(errors.Is(err, expected), "expected %v, got %v", expected, err)
}

// ok checks that an operation succeeded.
func ok(err error) {
	check(err == nil, "%v", err)
}

// check panics with the message unless the condition holds.
func check(condition bool, message string, args ...any) {
	if !condition {
		panic(fmt.Sprintf(message, args...))
	}
}
