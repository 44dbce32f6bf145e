/*
 * A small document store: WiredTiger, the engine of MongoDB, behind as much of Redis' protocol as
 * the YCSB driver speaks. A thread serves each connection, as in MongoDB. Each update is a
 * transaction, which is durable before it is answered. A thread makes checkpoints.
 *
 *   server PORT DIRECTORY CACHE_MB CHECKPOINT_EVERY_S
 *
 * With 0 seconds there are no checkpoints and updates are not made durable: for loading.
 *
 * A document is a list of names and values. Commands: HSET, HGETALL, ZADD (which does nothing),
 * INFO (how many checkpoints and requests on documents there were) and SHUTDOWN (after a checkpoint).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wiredtiger.h>

enum { WORDS = 64, BUFFER = 1 << 20 };

static WT_CONNECTION *engine;
static atomic_ulong checkpoints, requests;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void check(int error, const char *what)
{
    if (error)
        die(what, wiredtiger_strerror(error));
}

/* One connection: its socket, what was read and not yet used, and the answer so far. */
struct client {
    int socket;
    WT_SESSION *session;
    WT_CURSOR *documents;
    char *in, *out, *document;
    size_t read, used, written;
};

/* Bytes of a command or of a document. */
struct word {
    const char *at;
    size_t length;
};

static int is(struct word word, const char *text)
{
    return word.length == strlen(text) && !strncasecmp(word.at, text, word.length);
}

static void answer(struct client *client, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    client->written += vsnprintf(client->out + client->written, BUFFER - client->written, format, arguments);
    va_end(arguments);
}

static void answer_word(struct client *client, struct word word)
{
    answer(client, "$%zu\r\n", word.length);
    memcpy(client->out + client->written, word.at, word.length);
    client->written += word.length;
    answer(client, "\r\n");
}

/* Sends the answers. Returns whether the client is still there. */
static int flush(struct client *client)
{
    for (size_t sent = 0; sent < client->written;) {
        ssize_t more = send(client->socket, client->out + sent, client->written - sent, MSG_NOSIGNAL);
        if (more <= 0)
            return 0;
        sent += more;
    }
    client->written = 0;
    return 1;
}

/* Makes sure that there are so many unread bytes. What was answered is sent before waiting. */
static int need(struct client *client, size_t bytes)
{
    while (client->read - client->used < bytes) {
        if (!flush(client))
            return 0;
        memmove(client->in, client->in + client->used, client->read - client->used);
        client->read -= client->used;
        client->used = 0;
        ssize_t more = recv(client->socket, client->in + client->read, BUFFER - client->read, 0);
        if (more <= 0)
            return 0;
        client->read += more;
    }
    return 1;
}

/* Reads a line such as "*3" or "$12" and returns its number, or -1. */
static long number(struct client *client, char kind)
{
    size_t length = 0;
    do {
        if (!need(client, length + 1))
            return -1;
    } while (client->in[client->used + length++] != '\n');
    const char *line = client->in + client->used;
    client->used += length;
    return line[0] == kind ? strtol(line + 1, NULL, 10) : -1;
}

/* Reads a command into `store`. Returns its words, or 0 when the connection is over. */
static int command(struct client *client, char *store, struct word *words)
{
    long count = number(client, '*');
    if (count < 1 || count > WORDS)
        return 0;
    for (long at = 0; at < count; at++) {
        long length = number(client, '$');
        if (length < 0 || length > BUFFER / WORDS - 2 || !need(client, length + 2))
            return 0;
        memcpy(store, client->in + client->used, length);
        words[at] = (struct word){store, length};
        store[length] = 0;
        store += length + 1;
        client->used += length + 2;
    }
    return count;
}

/* The next word of a document. */
static struct word next(const char **at)
{
    uint32_t length;
    memcpy(&length, *at, sizeof length);
    struct word word = {*at + sizeof length, length};
    *at += sizeof length + length;
    return word;
}

static size_t append(char *document, size_t size, struct word word)
{
    uint32_t length = word.length;
    memcpy(document + size, &length, sizeof length);
    memcpy(document + size + sizeof length, word.at, length);
    return size + sizeof length + length;
}

/* Writes a document with these fields changed or added, of which `added` are new. Returns an error. */
static int set(struct client *client, const char *key, struct word *fields, int count, int *added)
{
    WT_CURSOR *cursor = client->documents;
    WT_ITEM old = {0}, new = {0};
    size_t size = 0;
    int known = 0;
    char seen[WORDS] = {0};

    cursor->set_key(cursor, key);
    int error = cursor->search(cursor);
    if (error && error != WT_NOTFOUND)
        return error;
    if (!error) {
        if ((error = cursor->get_value(cursor, &old)))
            return error;
        for (const char *at = old.data, *end = at + old.size; at < end;) {
            struct word name = next(&at), value = next(&at);
            for (int field = 0; field + 1 < count; field += 2)
                if (fields[field].length == name.length && !memcmp(fields[field].at, name.at, name.length)) {
                    value = fields[field + 1];
                    seen[field] = 1;
                    known++;
                }
            size = append(client->document, size, name);
            size = append(client->document, size, value);
        }
    }
    for (int field = 0; field + 1 < count; field += 2)
        if (!seen[field]) {
            size = append(client->document, size, fields[field]);
            size = append(client->document, size, fields[field + 1]);
        }
    new.data = client->document;
    new.size = size;
    cursor->set_key(cursor, key);
    cursor->set_value(cursor, &new);
    *added = count / 2 - known;
    return cursor->insert(cursor);
}

static void hset(struct client *client, struct word *words, int count)
{
    WT_SESSION *session = client->session;
    int error, added = 0;
    do {
        check(session->begin_transaction(session, "isolation=snapshot"), "begin");
        if ((error = set(client, words[1].at, words + 2, count - 2, &added)))
            session->rollback_transaction(session, NULL);
        else
            error = session->commit_transaction(session, NULL);
    } while (error == WT_ROLLBACK);
    if (error)
        answer(client, "-ERR %s\r\n", wiredtiger_strerror(error));
    else
        answer(client, ":%d\r\n", added);
}

static void hgetall(struct client *client, struct word *words)
{
    WT_CURSOR *cursor = client->documents;
    WT_ITEM item;
    cursor->set_key(cursor, words[1].at);
    int error = cursor->search(cursor);
    if (!error)
        error = cursor->get_value(cursor, &item);
    if (error == WT_NOTFOUND)
        answer(client, "*0\r\n");
    else if (error)
        answer(client, "-ERR %s\r\n", wiredtiger_strerror(error));
    else {
        int fields = 0;
        const char *end = (const char *)item.data + item.size;
        for (const char *at = item.data; at < end; fields++)
            next(&at);
        answer(client, "*%d\r\n", fields);
        for (const char *at = item.data; at < end;)
            answer_word(client, next(&at));
    }
    cursor->reset(cursor);
}

static void *serve(void *argument)
{
    struct client *client = argument;
    struct word words[WORDS];
    char *store = malloc(BUFFER);
    int count;

    check(engine->open_session(engine, NULL, NULL, &client->session), "open a session");
    check(client->session->open_cursor(client->session, "table:documents", NULL, NULL, &client->documents), "open a cursor");
    while ((count = command(client, store, words))) {
        if (client->written > BUFFER / 2 && !flush(client))
            break;
        if (is(words[0], "HSET") || is(words[0], "HGETALL"))
            atomic_fetch_add(&requests, 1);
        if (is(words[0], "HSET") && count >= 4)
            hset(client, words, count);
        else if (is(words[0], "HGETALL") && count == 2)
            hgetall(client, words);
        else if (is(words[0], "ZADD"))
            answer(client, ":1\r\n");
        else if (is(words[0], "INFO"))
            answer(client, "+checkpoints:%lu requests:%lu\r\n", atomic_load(&checkpoints), atomic_load(&requests));
        else if (is(words[0], "SHUTDOWN")) {
            check(client->session->checkpoint(client->session, NULL), "checkpoint");
            check(engine->close(engine, "leak_memory=true"), "close the engine");
            _exit(0);
        } else
            answer(client, "-ERR unknown command\r\n");
    }
    client->session->close(client->session, NULL);
    close(client->socket);
    free(store);
    free(client->in);
    free(client->out);
    free(client->document);
    free(client);
    return NULL;
}

static void *make_checkpoints(void *every)
{
    WT_SESSION *session;
    check(engine->open_session(engine, NULL, NULL, &session), "open a session");
    for (;;) {
        sleep((intptr_t)every);
        check(session->checkpoint(session, NULL), "checkpoint");
        atomic_fetch_add(&checkpoints, 1);
    }
    return NULL;
}

int main(int count, char **arguments)
{
    if (count != 5)
        die(arguments[0], "usage: server PORT DIRECTORY CACHE_MB CHECKPOINT_EVERY_S");
    intptr_t every = atoi(arguments[4]);
    char settings[512];
    snprintf(settings, sizeof settings,
        "create,cache_size=%sMB,session_max=400,eviction=(threads_min=2,threads_max=4),"
        "log=(enabled=true,file_max=100MB),transaction_sync=(enabled=%s,method=fsync)",
        arguments[3], every ? "true" : "false");
    check(wiredtiger_open(arguments[2], NULL, settings, &engine), "open the engine");
    WT_SESSION *session;
    check(engine->open_session(engine, NULL, NULL, &session), "open a session");
    check(session->create(session, "table:documents", "key_format=S,value_format=u"), "make the table");
    check(session->close(session, NULL), "close a session");

    pthread_t thread;
    if (every && pthread_create(&thread, NULL, make_checkpoints, (void *)every))
        die("a thread", "cannot be started");

    int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listening, (struct sockaddr *)&address, sizeof address) || listen(listening, 512))
        die("the port", "cannot be bound");
    for (;;) {
        struct client *client = calloc(1, sizeof *client);
        client->socket = accept(listening, NULL, NULL);
        if (client->socket < 0) {
            free(client);
            continue;
        }
        setsockopt(client->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        client->in = malloc(BUFFER);
        client->out = malloc(BUFFER);
        client->document = malloc(BUFFER);
        if (!client->in || !client->out || !client->document || pthread_create(&thread, NULL, serve, client))
            die("a connection", "no memory or thread");
        pthread_detach(thread);
    }
}
